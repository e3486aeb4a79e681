"""A run's folder, its checkpoints, and how it is asked to end."""
