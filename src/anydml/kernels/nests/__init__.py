"""Nests of reductions over reads at computed places, compiled: each element a real number with the bound of its error."""
