"""Machine code for statements that reduce rows: float64 sums with bounds, extremes and their positions, and results of
these."""
