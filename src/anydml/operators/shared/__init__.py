"""The vocabulary of the operator files, and helpers of related operators."""
