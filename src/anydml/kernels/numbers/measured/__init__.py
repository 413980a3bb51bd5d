"""Numbers held as float64 with a bound that each operation measures, and a factor."""
