"""The families of elements whose places are data: read or written at indices that tensors hold."""
