"""Kernel families that need no compiler, in NumPy."""
