"""The vocabulary of operator files: fields, rules, support rows, and statements of what is computed."""
