"""What tests of remote tasks start, and a small run of them that does not end by itself."""

from collections.abc import Callable, Sequence

from ps_dqn.cluster.spec import ClusterSpec, Task
from support.processes import Processes, Running

MODULES = {
    "chief": "ps_dqn.coordinator",
    "ps": "ps_dqn.parameter_server",
    "replay": "ps_dqn.replay_server",
    "worker": "ps_dqn.worker",
    "actor": "ps_dqn.actor",
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


def hosts(spec: ClusterSpec) -> tuple[str, ...]:
    """The flags that tell a task of SEED where all of them are."""
    return (
        f"--chief_host={spec.chief}",
        f"--ps_hosts={','.join(spec.ps)}",
        f"--worker_hosts={','.join(spec.workers)}",
        f"--actor_hosts={','.join(spec.actors)}",
    )


def starting(processes: Processes, spec: ClusterSpec) -> Callable[..., Running]:
    """What starts a task of SEED, as one of somebody else's, by a command that it comes after."""

    def start(task: Task, within: Sequence[str] = ()) -> Running:
        index = f"--task_index={task.index}"
        return processes.start("-m", MODULES[task.job], index, *hosts(spec), within=within)

    return start
