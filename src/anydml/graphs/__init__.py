"""Graphs of operators: passes from statements to statements, which change no bit of any result."""
