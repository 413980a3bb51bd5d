"""The package's version, and that of what its results mean."""

__version__ = "0.1.0"

SEMANTICS_VERSION = 1
"""Raised by 1 in the release in which any call has other results, other errors about values, or other bits of NaN than before.

A new operator, a call that was refused and is now taken, another message, and other speed do not raise it. CHANGELOG.md names
each version with the digest of the results that the tests hold.
"""
