"""The second stage: sums of higher precision."""
