"""Devices: compile, initialize, bind, execute."""
