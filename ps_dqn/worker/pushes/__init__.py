"""A worker's side of pull and push, and what is kept of it."""
