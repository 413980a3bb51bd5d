"""`python -m benchmarks`: every figure that the project states, measured where it runs."""
