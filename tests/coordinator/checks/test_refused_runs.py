"""Runs that are refused after their folder was made, and what is left of it."""

NAMES = ("flags.txt", "summary.json", "interface.json", "environment.txt", "metrics.csv")
SMALL = (
    *("--cluster=in_process", "--num_workers=1", "--hidden_sizes=16,16", "--jit_compile=none"),
    *("--total_env_steps=2000", "--min_replay_size=200", "--eval_episodes=4"),
)


def test_what_only_a_worker_can_refuse_ends_the_run_with_its_one_line(coordinate, tmp_path):
    # A file where the workers' replay is to be.
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "workers").write_text("")
    _, ended = coordinate("run", *SMALL, "--replay_files")
    assert ended.returncode == 2
    [line] = [line for line in ended.stdout.splitlines() if line.startswith("error:")]
    assert str(tmp_path / "run" / "workers") in line
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_checkpoint_of_another_network_is_refused_and_the_run_stays_as_it_was(coordinate):
    folder, ended = coordinate("run", *SMALL)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    before = {name: (folder / name).read_bytes() for name in NAMES}
    _, refused = coordinate("run", "--hidden_sizes=8", "--total_env_steps=6000")
    assert refused.returncode == 2
    assert "does not fit these flags" in refused.stdout
    assert "Traceback" not in refused.stdout + refused.stderr
    assert {name: (folder / name).read_bytes() for name in NAMES} == before
    for checkpoint in (folder / "checkpoints").glob("updates-*.npz"):
        checkpoint.write_bytes(b"damaged")
    _, refused = coordinate("run", "--total_env_steps=6000")
    assert refused.returncode == 2
    assert "all are damaged" in refused.stderr
    assert {name: (folder / name).read_bytes() for name in NAMES} == before


def test_the_state_of_another_optimizer_is_refused(coordinate):
    folder, ended = coordinate("run", *SMALL)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    other = ("--local_updates=1", "--optimizer=rmsprop")
    _, refused = coordinate("run", *SMALL, "--total_env_steps=6000", *other)
    assert refused.returncode == 2
    [line] = [line for line in refused.stdout.splitlines() if line.startswith("error:")]
    assert line.startswith(f"error: checkpoint {folder}/checkpoints/updates-")
    assert (
        "does not fit these flags: its optimizer state is of outer nesterov, and these flags want "
        "rmsprop. Use the flags it was made with"
    ) in line


def test_a_new_run_that_is_refused_leaves_no_folder(coordinate):
    few = [word for word in SMALL if not word.startswith("--hidden_sizes")]
    folder, refused = coordinate("run", *few, "--network=json:dumps")
    assert refused.returncode == 2
    *_, error, removed = refused.stdout.splitlines()
    assert error.startswith("error: --network=json:dumps: failed with")
    assert removed == f"nothing was learned yet: {folder} is removed"
    assert not folder.exists()
