"""Makes a smaller network that acts as a trained one does: policy distillation."""
