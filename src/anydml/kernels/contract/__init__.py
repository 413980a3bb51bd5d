"""Compiled matrix products and convolutions: of integers here, of floats and of floats between 8-bit tensors in subpackages."""
