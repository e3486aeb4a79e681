"""What tests of remote tasks start, and a small run of them that does not end by itself."""

MODULES = {
    "chief": "ps_dqn.coordinator",
    "ps": "ps_dqn.parameter_server",
    "worker": "ps_dqn.worker",
}
ENDLESS = (
    "--target_return=inf",
    "--total_env_steps=100000000",
    "--eval_period=20000",
    "--eval_episodes=2",
    "--log_interval=0.5",
    "--hidden_sizes=16,16",
    "--jit_compile=none",
)
