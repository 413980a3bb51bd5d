"""Descriptions of operators, and of how results differ, in words and as data."""
