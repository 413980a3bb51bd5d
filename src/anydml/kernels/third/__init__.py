"""The third compiled stage: it evaluates statements at single elements, in numbers of 250 or 1,210 bits with an error bound."""
