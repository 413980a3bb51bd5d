"""Integer convolutions of 3x3 by Winograd's algorithm."""
