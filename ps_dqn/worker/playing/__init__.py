"""What a worker steps: environments here or at actors, and how it acts in them."""
