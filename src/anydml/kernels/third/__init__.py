"""The third compiled stage: any statement at one element, in numbers of 250 bits with a bound of their error."""
