"""The command line of a worker, a parameter server, a replay server or an actor."""

from collections.abc import Callable, Sequence

from absl import flags as absl_flags

from ps_dqn.cluster import lifeline, proxies
from ps_dqn.cluster.health import HealthError
from ps_dqn.cluster.server import PortError, check_port
from ps_dqn.cluster.spec import ClusterSpecError, TaskOptions
from ps_dqn.errors import UsageError
from ps_dqn.flags import command_line, experiment, place, tasks
from ps_dqn.run import compile_cache, libraries, paths

libraries.set_up()

NAMES = (
    "chief_host",
    "ps_hosts",
    "worker_hosts",
    "replay_hosts",
    "actor_hosts",
    "num_ps",
    "num_workers",
    "num_replay_servers",
    "num_actors",
    "task_index",
    "intra_op_threads",
    "inter_op_threads",
    "compile_cache",
    "health_port",
)


def run(
    argv: Sequence[str],
    job: str,
    serve: Callable[..., object],
    define_more: Callable[[absl_flags.FlagValues], Sequence[str]] | None = None,
    has_tensorflow: bool = True,
) -> int:
    """Reads this task's place and serves it; returns only for help.

    Args:
        argv: the command line.
        job: the cluster's name for such tasks.
        serve: called with the cluster, the task, its options and further flags' values.
        define_more: defines the further flags and returns their names.
        has_tensorflow: it has thread pools and compiled code.
    """
    values = command_line.new_flags()
    tasks.define_addresses(values, has_tensorflow)
    tasks.define_task(values)
    experiment.define_num_actors(values)
    more = define_more(values) if define_more else ()
    if command_line.asks_for_help(argv):
        names = {"ps": "parameter_server", "replay": "replay_server"}
        command_line.print_help(
            values,
            f"python -m ps_dqn.{names.get(job, job)}",
            f"Serves one {job} task. Its place comes from TF_CONFIG or from these flags.",
            {"Where it is": (*(name for name in NAMES if name in values), *more)},
        )
        return 0
    try:
        command_line.parse(values, argv)
        spec, task = place.of_task(values, job)
        if "worker_dir" in more and values.worker_dir:
            values.worker_dir = str(paths.named("--worker_dir", values.worker_dir))
        if has_tensorflow:
            compile_cache.use(values.compile_cache)
    except (absl_flags.Error, ClusterSpecError, UsageError) as error:
        command_line.refuse(error)
    proxies.go_around(spec)
    lifeline.hold_if_given()
    address = spec.addresses(job)[task.index]
    try:
        check_port(address)
    except PortError as error:
        command_line.refuse(error)
    print(f"{task} serves at {address}", flush=True)
    others = [values[name].value for name in more]
    options = TaskOptions(health_port=values.health_port)
    if has_tensorflow:
        threads = values.intra_op_threads, values.inter_op_threads
        options = TaskOptions(*threads, values.health_port)
    try:
        serve(spec, task, options, *others)
    except HealthError as error:
        command_line.refuse(error)
    return 0
