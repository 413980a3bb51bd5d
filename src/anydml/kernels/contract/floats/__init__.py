"""Contractions of real numbers, compiled: products are exact in float64, and a bound covers the rounding errors of sums."""
