"""Graphs of operators, and the passes that fuse and remove calls. No pass changes a bit of any result."""
