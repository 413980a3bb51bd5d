"""Dequantise, compute, quantise: sums of integers, rounded as float tensors between the operators would have been."""
