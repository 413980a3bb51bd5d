"""Element-wise statements as machine code: elements computed with error bounds, and decided exactly where bounds do not do."""
