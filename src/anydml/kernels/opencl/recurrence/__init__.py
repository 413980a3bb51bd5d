"""Recurrences on an OpenCL device: steps in order, each decided before the next one reads it."""
