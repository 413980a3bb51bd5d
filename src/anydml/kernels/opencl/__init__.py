"""Kernels for OpenCL devices: each element, or each row, in a work item or a group of them, with the same bits."""
