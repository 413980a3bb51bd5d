"""The elementary functions of vectors: in pairs of float32, in float64 with a bound of the error, and in twice its
precision."""
