"""Handwritten digits, classified by two quantised matmuls."""
