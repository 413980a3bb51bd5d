"""The family of random bits: Philox 4x32-10 of consecutive counters."""
