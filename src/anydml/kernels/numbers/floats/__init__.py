"""Numbers as float64, or as float32 if they are exactly that, with bounds that are mostly known at compile time."""
