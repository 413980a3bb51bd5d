"""The family of gathers and scatters: elements that are read or written at indices held by tensors."""
