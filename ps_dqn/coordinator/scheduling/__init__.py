"""Closures on their way: how many, how long, on whom, and whom a round waits for."""
