"""The family of positions in an order: of the first elements of sorted lines, and of the elements that are not 0."""
