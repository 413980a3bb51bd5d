"""Statements that reduce rows as machine code: float64 sums with bounds, extremes and positions, and what is made of them."""
