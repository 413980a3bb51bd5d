"""The family of lines in sorted order: their first elements and the positions of these."""
