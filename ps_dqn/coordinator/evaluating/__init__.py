"""Greedy evaluations, what follows from them, and films."""
