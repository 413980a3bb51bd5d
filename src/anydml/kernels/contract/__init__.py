"""Integer matrix products, compiled: the family, how a product is planned, and what emits its kernels."""
