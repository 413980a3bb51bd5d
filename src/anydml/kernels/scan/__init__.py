"""The family of running sums and products: of the elements of a line up to each position."""
