"""What parameter servers hold, and the rules by which it changes."""
