"""Elements that the first compiled stages leave undecided: how kernels record them, and how they are decided later."""
