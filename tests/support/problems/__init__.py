"""Small environments that nobody tuned for, as people write them: in units of their own."""
