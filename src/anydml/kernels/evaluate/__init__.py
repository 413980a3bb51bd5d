"""The exact evaluation of a statement: each element of an output as an extended real number, rounded once when it is stored."""
