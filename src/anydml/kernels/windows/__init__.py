"""Windows that slide over an input: largest elements, sums, means and lengths in machine code."""
