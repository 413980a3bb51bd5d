"""Real numbers in machine code: knowledge of values, and the representations that hold them."""
