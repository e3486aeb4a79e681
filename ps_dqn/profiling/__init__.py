"""What one process records of itself: TensorFlow's profiler, and cProfile of its Python."""
