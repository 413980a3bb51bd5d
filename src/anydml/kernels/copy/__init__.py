"""Compiled strided copies: the family, the planning of a copy, and the emitters of its kernels."""
