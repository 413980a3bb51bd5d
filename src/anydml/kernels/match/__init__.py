"""Patterns of statements, by which families of kernels are chosen: pure functions that know no operator."""
