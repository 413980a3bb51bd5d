"""The command line. Of all of anydml, only this package imports click and rich."""
