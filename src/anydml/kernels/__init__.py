"""How operators are computed: each family of kernels takes a statement or refuses it with a reason, and then assumes."""
