"""Runs on Kubernetes as their operator has them: what is applied, and what is done with it."""
