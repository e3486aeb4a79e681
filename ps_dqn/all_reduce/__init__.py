"""The parameters on the workers themselves, who add up their gradients by a collective."""
