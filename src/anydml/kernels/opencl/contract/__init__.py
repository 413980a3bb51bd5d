"""Contractions of floats on an OpenCL device: tiled products, then pairs for blocks and three-part sums for single elements."""
