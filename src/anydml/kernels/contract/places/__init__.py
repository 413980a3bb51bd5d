"""Convolutions whose rows are places (positions of the output) and whose columns are filters."""
