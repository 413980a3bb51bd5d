"""Element-wise statements as machine code: float64 with a bound of its error, and what is made of it."""
