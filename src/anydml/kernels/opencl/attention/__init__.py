"""Attention on OpenCL devices."""
