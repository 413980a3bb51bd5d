"""Sums of packed rows and columns."""
