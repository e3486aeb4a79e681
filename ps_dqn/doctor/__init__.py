"""What is wrong with a run, as far as what it has left shows, and what to change."""
