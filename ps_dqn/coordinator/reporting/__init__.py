"""What people are shown of a run, while it goes on and at its end."""
