"""Families of kernels, which compute operators: each takes a statement, or refuses it with a reason."""
