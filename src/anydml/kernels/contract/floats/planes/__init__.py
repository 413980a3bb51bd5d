"""Windows that slide over planes."""
