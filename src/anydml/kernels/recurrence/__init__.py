"""The family of states that are computed step by step: the sums and the formulas of each step, and what is left open of it."""
