"""Elements that the first compiled stages leave undecided."""
