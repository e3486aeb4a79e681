"""A deep Q-network trainer on TensorFlow's parameter-server strategy."""

__version__ = "0.1.0"
