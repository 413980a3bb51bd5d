"""The family of running sums and products: every element is one of all elements of its line up to its place."""
