"""What is looked at before a run directory or any task is there."""
