"""Numbers in twice float64's precision."""
