"""How far from the machine each phase of a worker is.

    python benchmarks/limit.py --preset=cartpole
    python benchmarks/limit.py --preset=atari

In turns: what one core of this machine can do, and a run of one worker on a local cluster. The
limit of a phase is what it cannot be done without:

* gradient: the floating-point operations of an update, at the rate of a large matrix product;
* acting: those of the network for all environments of the worker, likewise;
* environment: Gymnasium's own vector of them, stepped with random actions;
* sampling: the bytes of a minibatch, at the rate of a copy in memory;
* pull and push: the bytes of the parameters, at the rate of a TCP connection of this machine, and
  at the rate of a copy in memory, which a processor needs even where nothing is sent.

The best of all rounds, of the limits and of the runs: what other programs take is in neither.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from local_limit import config_of
from transports import raw_tcp

# A product of two square matrices of this size is as quick as products are (units).
LARGE = 1024


def seconds_of(call, seconds: float) -> float:
    """The quickest call in so many seconds, of five at least."""
    call()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def operations(function, *inputs) -> int:
    """Floating-point operations of a `tf.function`, as TensorFlow's profiler counts them."""
    import tensorflow as tf

    graph = function.get_concrete_function(*inputs).graph
    builder = tf.compat.v1.profiler.ProfileOptionBuilder
    asked = builder(builder.float_operation()).with_empty_output().build()
    return tf.compat.v1.profiler.profile(graph, options=asked).total_float_ops


def machine(flags: list[str], seconds: float) -> dict[str, float]:
    """Seconds that each phase needs at the least, and what of: on one core, without a cluster."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from ps_dqn import environments, networks
    from ps_dqn.environments.making import make_vector
    from ps_dqn.learning.learner import make_learner
    from ps_dqn.replay.batch import zero_batch
    from ps_dqn.worker.graph.parts import acting_specs

    # One update whose gradient is pushed: what is counted of the loop of many.
    config = config_of([*flags, "--local_updates=1", "--jit_compile=none"])
    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, 0)
    vector, number = tf.constant(network.initial), tf.constant(0.1)
    batch = tf.nest.map_structure(tf.constant, zero_batch(config, environment))
    slots, seed = tf.zeros([0, network.num_parameters]), tf.constant([0, 0])
    given = vector, vector, slots, number, number, number, seed, batch
    acting = acting_specs(config, environment, network)
    shown = tf.zeros(acting.observations.shape, acting.observations.dtype)
    state = tf.zeros(acting.state.shape)
    counted = {
        "gradient": operations(make_learner(config, network), *given),
        "acting": operations(tf.function(network.act, autograph=False), vector, shown, state),
    }
    square = tf.random.stateless_normal([LARGE, LARGE], [1, 2])
    product = seconds_of(lambda: tf.linalg.matmul(square, square).numpy(), seconds)
    rate = 2 * LARGE**3 / product

    envs = make_vector(config.environment, config.environment.envs_per_worker)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(100)]

    def play() -> None:
        for each in actions:
            envs.step(each)

    played = seconds_of(play, seconds) / len(actions)
    envs.close()
    nbytes = sum(np.asarray(each).nbytes for each in tf.nest.flatten(batch))
    # Larger than what a processor keeps near, and so many bytes of it.
    source = np.ones(2**25, np.uint8)
    target = np.empty_like(source)
    byte = seconds_of(lambda: np.copyto(target, source), seconds) / source.nbytes
    moved = raw_tcp(4 * network.num_parameters)["tcp"]
    return {
        "gflops": rate / 1e9,
        "mflop": counted["gradient"] / 1e6,
        "gradient": counted["gradient"] / rate,
        "acting": counted["acting"] / rate,
        "environment": played,
        "sampling": byte * nbytes,
        "loopback": moved,
        "copy": byte * 4 * network.num_parameters,
    }


def run(flags: list[str], env_steps: int) -> dict[str, float]:
    """Seconds of a worker in a run: for an update, a step of its environments, an exchange."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "ps_dqn.coordinator", *flags, "--num_workers=1"),
            *(f"--run_dir={folder}/run", f"--total_env_steps={env_steps}", "--target_return=inf"),
            *("--eval_period=1000000000", "--overlap=off", "--confirm_episodes=0"),
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        summary = json.loads(pathlib.Path(folder, "run", "summary.json").read_text())
    worker, config = summary["workers"]["0"], config_of(flags)
    steps = worker["env_steps_made"] / config.environment.envs_per_worker
    updates = worker["updates_made"]
    return {
        "gradient": worker["time_gradient"] / updates,
        "sampling": worker["time_sampling"] / updates,
        "acting": worker["time_acting"] / steps,
        "environment": worker["time_environment"] / steps,
        "pull": worker["pull_ms"] / 1e3,
        "push": worker["push_ms"] / 1e3,
    }


# Phases of a run, what each is of (or against what, where it has two limits), and its limit.
ROWS = (
    ("gradient", "an update", "gradient"),
    ("sampling", "an update", "sampling"),
    ("acting", "a step of the environments", "acting"),
    ("environment", "a step of the environments", "environment"),
    ("pull", "its bytes over loopback", "loopback"),
    ("push", "its bytes over loopback", "loopback"),
    ("pull", "its bytes copied in memory", "copy"),
    ("push", "its bytes copied in memory", "copy"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each limit (seconds)")
    parser.add_argument("--env_steps", type=int, default=60_000, help="of each run")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options, flags = parser.parse_known_args()
    if options.one:
        print(json.dumps(machine(flags, options.seconds)))
        return
    limits, found = [], []
    for _ in range(options.rounds):
        command = [sys.executable, __file__, "--one", f"--seconds={options.seconds}", *flags]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        limits.append(json.loads(ran.stdout.splitlines()[-1]))
        found.append(run(flags, options.env_steps))
    limit = {name: min(each[name] for each in limits) for name in limits[0]}
    limit["gflops"] = max(each["gflops"] for each in limits)
    print(
        f"one core: {limit['gflops']:.1f} billion operations of products a second; "
        f"an update: {limit['mflop']:.2f} million\n"
    )
    print("| phase | of | limit (ms) | in a run (ms) | rate / limit |")
    print("|---|---|---|---|---|")
    for name, what, limited_by in ROWS:
        ours, least = min(each[name] for each in found), limit[limited_by]
        print(f"| {name} | {what} | {1e3 * least:.4f} | {1e3 * ours:.4f} | {least / ours:.3f} |")


if __name__ == "__main__":
    main()
