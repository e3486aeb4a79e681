"""A run whose actions are continuous."""


def test_it_says_as_it_begins_what_a_grid_leaves_out(coordinate) -> None:
    _, ended = coordinate(
        "grid",
        "--cluster=in_process",
        "--num_workers=1",
        "--env_id=Pendulum-v1",
        "--action_bins=3",
        "--hidden_sizes=8",
        "--jit_compile=none",
        "--min_replay_size=200",
        "--total_env_steps=1000",
        "--eval_episodes=1",
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    before, said, _ = ended.stdout.partition("--action_bins=3: the action's number has 3 values, ")
    assert said
    assert before.startswith("Pendulum-v1: observations 3, 3 actions; ")
