"""Runs side by side: curves and scores over seeds, with what is uncertain about them."""
