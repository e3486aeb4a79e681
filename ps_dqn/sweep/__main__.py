"""Runs an experiment over settings and seeds: `python -m ps_dqn.sweep --output=… --vary=…`.

The same command goes on with a sweep that was interrupted.
"""

import itertools
import json
import pathlib
from collections.abc import Callable, Sequence

from absl import flags as absl_flags

from ps_dqn import user_code
from ps_dqn.cluster.spec import ClusterSpecError
from ps_dqn.coordinator.checks import atoms
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, naming, run_folder, tasks
from ps_dqn.run import compile_cache, disk, libraries, lock, paths, signals
from ps_dqn.sweep import space as spaces
from ps_dqn.sweep.space import Choices, Dimension, Point
from ps_dqn.telemetry import metrics

FLAGS = ("output", "vary", "seeds", "jobs", "search", "trials", "metric")
PRESETS = ("preset", "flagfile")  # of many options at once
FIRST_FLAGS = (*FLAGS, "preset", "env_id", "total_env_steps")
# Topics beside the experiment's: the word they are asked for by, their title and their flags.
TOPICS = {
    "sweep": ("What is run.", FLAGS),
    "presets": ("What each run begins with.", PRESETS),
    "tasks": ("Where the tasks run.", (*tasks.PLACEMENT, "compile_cache")),
}
SEARCHES = ("grid", "random", "optuna")
PLAN = "sweep.json"
# Points of a search that goes its own way: so many combinations of ends are checked beforehand.
MOST_CHECKED = 256


def main(argv: Sequence[str]) -> int:
    """Reads the command line, checks every run and runs them; returns the exit code."""
    values = _define()
    if command_line.asks_for_help(argv):
        command_line.print_help(
            values,
            "python -m ps_dqn.sweep",
            "Runs an experiment over settings and seeds; all other flags hold for every run.",
            {**experiment.topics(), **dict(TOPICS.values())},
            argv,
            FIRST_FLAGS,
            {**{word: title for word, (title, _) in TOPICS.items()}, **experiment.topic_words()},
        )
        return 0
    libraries.set_up()
    try:
        command_line.parse(values, argv)
        return _sweep(argv, values)
    except (absl_flags.Error, ClusterSpecError, UsageError) as error:
        command_line.refuse(error)


def _define() -> absl_flags.FlagValues:
    values = command_line.new_flags()
    experiment.define(values)
    tasks.define_addresses(values)
    tasks.define_placement(values)
    absl_flags.DEFINE_string(
        "output", "", "Folder of the sweep: its runs, table and picture.", flag_values=values
    )
    absl_flags.DEFINE_multi_string(
        "vary",
        [],
        "A flag and its values, name=value,value (name=value|value where values have commas); or a "
        "range, name=low..high, with :log behind it where magnitudes count. May be repeated.",
        flag_values=values,
    )
    absl_flags.DEFINE_integer(
        "seeds", 3, "Runs of each setting, with seeds from --seed on (runs).", 1, flag_values=values
    )
    absl_flags.DEFINE_string(
        "jobs",
        "auto",
        "Runs at a time. auto: as many as this machine has cores for their workers.",
        flag_values=values,
    )
    absl_flags.DEFINE_enum(
        "search",
        "grid",
        list(SEARCHES),
        "Every combination (grid), some at random (random), or where the scores so far promise the "
        'most (optuna; needs the extra: pip install "ps-dqn[optuna]").',
        flag_values=values,
    )
    absl_flags.DEFINE_integer(
        "trials",
        20,
        "Settings that search=random and search=optuna try (settings).",
        1,
        flag_values=values,
    )
    absl_flags.DEFINE_string(
        "metric",
        "eval/episode_return",
        "What runs are judged by, the higher the better: a column of metrics.csv.",
        flag_values=values,
    )
    return values


def _sweep(argv: Sequence[str], values: absl_flags.FlagValues) -> int:
    from ps_dqn.sweep import checking  # which needs NumPy

    if not values.output:
        raise UsageError("--output=: say the folder of the sweep")
    if values.search == "grid" and values["trials"].present:
        raise UsageError(
            f"--trials={values.trials}: has no effect with --search=grid, which tries all; leave "
            f"it out"
        )
    if values.health_port:
        raise UsageError(
            f"--health_port={values.health_port}: runs at the same time cannot serve the same port"
        )
    if values.metric not in metrics.columns():
        near = naming.nearest(values.metric, metrics.columns())
        raise UsageError(
            f"--metric={values.metric}: is no column of metrics.csv{near} say one that runs "
            f"measure, like {values['metric'].default}"
        )
    folder = paths.named("--output", values.output)
    space = spaces.parse(values.vary, checking.whole())
    for dimension in space:
        _check_dimension(dimension, argv, values)
    points = _points(space, values)

    def read(point: Point) -> checking.Settings:
        of_point = _define()
        try:
            command_line.parse(of_point, [*argv, *point])
        except absl_flags.Error as error:
            raise UsageError(str(error)) from None
        config = experiment.read(of_point)
        placement = tasks.read_placement(of_point, config.parameter_server.has_servers)
        return checking.Settings(config, placement, _flagfile(of_point))

    looking = checking.Checking(read)
    jobs = _jobs(values, max(looking.settings(point).workers for point in points))
    _hold(folder)
    _keep_plan(folder, values, _flagfile(values))
    return _run(values, folder, jobs, space, points, looking.flagfile)


def _flagfile(values: absl_flags.FlagValues) -> str:
    """All flags of runs that a command line asks for, but what each of them derives itself."""
    return run_folder.as_flagfile(values, ["compile_cache"], atoms.open_ends(values))


def _check_dimension(
    dimension: Dimension, argv: Sequence[str], values: absl_flags.FlagValues
) -> None:
    """Refuses what a search cannot go through."""
    name = dimension.name
    if name not in (*experiment.names(), *tasks.PLACEMENT, *PRESETS):
        raise UsageError(f"--vary={name}=…: {name} is no flag of an experiment")
    # What a flagfile says is varied all the same.
    if name != "flagfile" and any(word.partition("=")[0] == f"--{name}" for word in argv):
        raise UsageError(f"--{name}={values[name].value}: is varied by --vary={name}=… already")
    if values.search == "grid" and not isinstance(dimension, Choices):
        raise UsageError(
            f"--vary={name}={dimension.low:g}..{dimension.high:g}: a grid needs values; list some, "
            f"or say --search=random or --search=optuna"
        )


def _points(space: Sequence[Dimension], values: absl_flags.FlagValues) -> list[Point]:
    """What will be tried; of a search that goes its own way, the ends of that."""
    if values.search == "random":
        return spaces.drawn(space, values.trials, values.seed)
    most = MOST_CHECKED if values.search == "optuna" else None
    return list(itertools.islice(spaces.grid(space), most))


def _hold(folder: pathlib.Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.hold(folder, "--output")
    except OSError as error:
        raise UsageError(f"--output={folder}: cannot be written ({error.strerror})") from None


def _keep_plan(folder: pathlib.Path, values: absl_flags.FlagValues, common: str) -> None:
    """Writes down what is swept; refuses to mix it with what another sweep has left.

    More seeds and more trials are the same sweep.
    """
    plan = {
        "search": values.search,
        "vary": list(values.vary),
        "metric": values.metric,
        "common": common.splitlines(),
    }
    path = folder / PLAN
    try:
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not isinstance(before, dict):
            raise ValueError("it is no plan")
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--output={folder}: {path} cannot be read ({user_code.one_line(error)}): say another "
            f"folder, or remove it; runs that are there go on"
        ) from None
    if before:
        for name, value in plan.items():
            if before.get(name) != value:
                what = "flags of the experiment" if name == "common" else f"--{name}"
                raise UsageError(
                    f"--output={folder}: has a sweep with other {what}; say another folder, or "
                    f"what {path} says"
                )
    if before == plan:
        return
    try:
        with disk.beside(path) as temporary:
            temporary.write_text(json.dumps(plan, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output={folder}: cannot be written ({disk.reason(error)})") from None


def _jobs(values: absl_flags.FlagValues, workers: int) -> int:
    if values.jobs == "auto":
        return max(compile_cache.num_cpus() // workers, 1)
    try:
        jobs = int(values.jobs)
    except ValueError:
        jobs = 0
    if jobs < 1:
        raise UsageError(f"--jobs={values.jobs}: must be auto, or 1 or more")
    return jobs


def _run(
    values: absl_flags.FlagValues,
    folder: pathlib.Path,
    jobs: int,
    space: Sequence[Dimension],
    points: list[Point],
    flags_of: Callable[[Point], str],
) -> int:
    from rich.console import Console

    from ps_dqn.sweep import results, search
    from ps_dqn.sweep.board import Board
    from ps_dqn.sweep.running import Plan, Sweep

    seeds = range(values.seed, values.seed + values.seeds)
    searching: search.Search = search.Listed(points)
    settings = len(points)
    if values.search == "optuna":
        searching = search.Optuna(space, values.trials, values.seed, folder)
        settings = searching.num_settings
    plan = Plan(
        folder,
        seeds,
        settings * len(seeds),
        jobs,
        values.metric,
        flags_of,
    )
    console = Console()
    board = Board(console, values.log_interval)
    board.say(
        f"{_count(settings * len(seeds), 'run')}: {_count(settings, 'setting')} × "
        f"{_count(len(seeds), 'seed')}, {jobs} at a time; in {folder}"
    )
    sweep = Sweep(plan, searching, board)
    sweep.run()
    results.show(console, sweep, folder, values.metric)
    if sweep.received:
        return signals.exit_code_of(sweep.received)
    if sweep.failed:
        return signals.FAILED
    # Somebody has ended runs, and not the sweep: the same command goes on with them.
    return signals.START_AGAIN if sweep.interrupted else 0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


if __name__ == "__main__":
    command_line.run_main(main)
