"""A module that ends the program that imports it, as one without a guard around its `main` does."""

import sys

sys.exit(3)
