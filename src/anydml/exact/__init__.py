"""The arithmetic of exactness: formats, extended real numbers, and intervals refined until a rounding is decided."""
