"""Descriptions of operators and of differences between results, in words and as data."""
