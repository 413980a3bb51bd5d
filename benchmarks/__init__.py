"""`python -m benchmarks`: every figure that the project states, measured on this machine."""
