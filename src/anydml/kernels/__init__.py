"""How operators are computed: each kernel takes a checked desc or refuses it with a reason, and then assumes."""
