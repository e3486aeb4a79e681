"""What a worker remembers of its experience, and how it draws from it. No TensorFlow."""
