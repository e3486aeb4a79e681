"""The evaluator: plays greedy episodes with saved checkpoints."""
