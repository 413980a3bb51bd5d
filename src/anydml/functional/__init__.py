"""Eager functions: arrays in, arrays out, sizes inferred, every rule checked."""
