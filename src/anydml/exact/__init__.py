"""The arithmetic of exactness: formats, extended real numbers, and intervals that are refined until a rounding is decided."""
