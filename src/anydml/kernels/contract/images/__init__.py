"""Images of the inputs of convolutions."""
