"""The family of sorting: the first elements of sorted lines and their positions, and lists of nonzero elements."""
