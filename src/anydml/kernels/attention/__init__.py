"""The kernels of attention: scores of queries and keys, weights, and sums of values by these, without a matrix of scores."""
