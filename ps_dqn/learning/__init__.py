"""What a worker computes for one push: losses, targets, minibatches, the update loop. Pure."""
