"""Matrix products and convolutions, compiled: of integers here, of floats and of floats between bytes in two packages below."""
