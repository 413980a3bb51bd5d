"""Products of float rows with weights of 4 or 8 bits, which are dequantised while they are multiplied."""
