"""What CleanRL documents of its `dqn` and `dqn_jax`, for the two programs that are written here.

docs.cleanrl.dev/rl-algorithms/dqn: both have the same defaults.
"""

SETTINGS = {
    "hidden": (120, 84),
    "batch_size": 128,
    "update_period": 10,
    "capacity": 10_000,
    "learning_starts": 10_000,
    "learning_rate": 2.5e-4,
}
GAMMA, TARGET_PERIOD, EPSILON_START, EPSILON_END, EPSILON_STEPS = 0.99, 500, 1.0, 0.05, 250_000
