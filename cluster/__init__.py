"""gRPC clusters of TensorFlow tasks: what they are made of, how they start, how they stop.

Nothing here knows what the tasks compute.
"""
