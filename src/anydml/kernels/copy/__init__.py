"""Kernels of the cpu device, one module for each operator, fastest first."""
