"""Convolutions with one channel and one filter per group."""
