"""Convolutions whose rows are places and whose columns are filters."""
