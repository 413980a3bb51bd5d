"""Convolutions of one channel and one filter a group."""
