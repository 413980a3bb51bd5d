"""The exception of patterns: raised inside a pattern, and caught at its entry."""


class Unmatched(Exception):
    """Raised if a statement does not match a pattern; the message is the reason."""
