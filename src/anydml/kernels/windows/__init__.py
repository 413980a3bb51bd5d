"""Reductions over windows that slide over an input, in machine code: maxima, sums, means and lengths."""
