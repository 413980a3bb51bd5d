"""The vocabulary that operator files are written in. It knows no operator."""
