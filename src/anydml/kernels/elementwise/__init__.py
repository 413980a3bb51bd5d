"""Maps, compiled: every element of an output from one element of each input."""
