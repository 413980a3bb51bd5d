"""Products of packed panels."""
