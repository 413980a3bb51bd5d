"""Kernel families in NumPy, which need no compiler."""
