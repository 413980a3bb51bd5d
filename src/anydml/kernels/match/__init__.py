"""Patterns of statements, which families of kernels are chosen by: pure functions that know no operator."""
