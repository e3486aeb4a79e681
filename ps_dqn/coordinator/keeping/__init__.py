"""What outlives a connection: checkpoints, snapshots, and what became of the run."""
