"""Pictures of descs: tensors as grids and rulers, what an element is computed from, and where a rule is broken."""
