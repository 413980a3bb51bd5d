"""Patterns of statements, by which families of kernels are chosen: pure functions, independent of operators."""
