"""The vocabulary that operator files are written in: fields, rules, support rows, and statements of what is computed."""
