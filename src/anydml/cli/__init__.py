"""The command line. In anydml, only this package imports click and rich."""
