"""The family of states computed step by step: the sums and the formulas of each step, and its undecided elements."""
