"""Test cases for other people's kernels: inputs that hurt, and descs over an operator's support table."""
