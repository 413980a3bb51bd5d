"""Contractions of real numbers, compiled: products in float64, where they are exact, and a bound on what their sums lost."""
