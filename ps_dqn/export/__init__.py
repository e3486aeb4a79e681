"""Writes a run's network in the formats of other programs."""
