"""The third compiled stage: it evaluates statements at single elements, in numbers of 250 bits with an error bound."""
