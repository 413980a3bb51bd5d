"""Strided copies, compiled: the family, how a copy is planned, and what emits its kernels."""
