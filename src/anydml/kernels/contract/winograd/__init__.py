"""Integer convolutions with 3x3 filters by Winograd's algorithm."""
