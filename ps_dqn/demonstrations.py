"""Makes a file for `--demonstrations` of what workers kept with `--replay_files`.

`python -m ps_dqn.demonstrations --input=… --output=….npz`. It needs the files alone.
"""

from collections.abc import Sequence

from absl import flags as absl_flags

from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line
from ps_dqn.run import disk, libraries, outputs, paths


def main(argv: Sequence[str]) -> int:
    """Reads the command line and writes the file; returns the exit code."""
    values = command_line.new_flags()
    absl_flags.DEFINE_string(
        "input",
        "",
        "Folder of a run, a worker or a replay; all replays below it are read.",
        flag_values=values,
    )
    absl_flags.DEFINE_string("output", "", "The .npz file to write.", flag_values=values)
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.demonstrations",
            "Makes a file for --demonstrations of what workers kept with --replay_files.",
            {"What to read and write.": ("input", "output")},
        )
        return 0
    libraries.set_up()
    try:
        command_line.parse(values, argv)
        return _write(values.input, values.output)
    except (absl_flags.Error, UsageError) as error:
        command_line.refuse(error)


def _write(source: str, target: str) -> int:
    import numpy as np

    from ps_dqn.replay import kept

    folder, path = paths.named("--input", source), paths.named("--output", target)
    if not target or path.suffix != ".npz":
        raise UsageError(f"--output={target}: name the .npz file to write")
    outputs.check_file(path, f"--output={target}")
    replays = kept.find(folder) if source else []
    if not replays:
        raise UsageError(
            f"--input={source}: there is no replay below it; workers keep theirs with "
            f"--replay_files"
        )
    layouts = [kept.layout_of(replay) for replay in replays]
    kinds = {(each.source, each.observation_shape, each.mask_size) for each in layouts}
    if len(kinds) > 1:
        raise UsageError(
            f"--input={source}: has replays of several environments, or of other --env_wrappers or "
            f"another --reward_clip: name one of them"
        )
    parts = []
    for replay in replays:
        print(f"{replay}: ", end="", flush=True)
        parts.append(kept.transitions(replay))
        print(f"{len(parts[-1]['actions']):,} transitions", flush=True)
    arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if not len(arrays["actions"]):
        raise UsageError(f"--input={source}: its replays are empty")
    try:
        with disk.beside(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise UsageError(f"--output={target}: {error.strerror}") from None
    print(f"{path}: {len(arrays['actions']):,} transitions")
    return 0


if __name__ == "__main__":
    command_line.run_main(main)
