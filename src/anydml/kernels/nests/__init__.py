"""Machine code for nests of reductions that read at computed indices; every element is a number with a bound of its error."""
