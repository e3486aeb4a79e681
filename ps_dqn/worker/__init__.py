"""A worker: collects, learns, pulls and pushes."""
