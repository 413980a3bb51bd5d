"""Numbers held as float64, or as float32 where these are the numbers, with bounds that are mostly known beforehand."""
