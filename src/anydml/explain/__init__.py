"""What operators are, and how results differ, in words and as data."""
