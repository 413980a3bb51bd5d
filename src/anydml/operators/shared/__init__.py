"""What operator files share: their vocabulary, and helpers of single lineages."""
