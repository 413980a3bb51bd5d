"""Epilogues of a product: parameters per row and column, the estimate of the rounding, and the exact rule."""
