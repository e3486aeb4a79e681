"""What the coordinator traces for workers: the closures, and what they are put together from."""
