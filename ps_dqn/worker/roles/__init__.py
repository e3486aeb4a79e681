"""A worker's part in a run: it collects, learns, or both."""
