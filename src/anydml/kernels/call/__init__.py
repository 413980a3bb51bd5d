"""Calls: tables of steps in phases, run by one loop in machine code, and the threads that share them."""
