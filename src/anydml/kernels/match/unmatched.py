"""The exception of patterns: raised within one, and caught where it begins."""


class Unmatched(Exception):
    """Raised if a statement is not of a kind; the message is the reason."""
