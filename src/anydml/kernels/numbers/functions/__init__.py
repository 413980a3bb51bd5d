"""The elementary functions of vectors: as pairs of float32, in float64 with a bound of the error, in twice its precision."""
