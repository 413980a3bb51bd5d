"""Sums of few rows, without packing."""
