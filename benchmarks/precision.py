"""What one local update and one step of acting cost in float32, bfloat16, float16 and int8.

    python benchmarks/precision.py
    python benchmarks/precision.py --rounds=9 --seconds=2
    python benchmarks/precision.py --agreement=runs/a

Each row is the compiled update loop of a worker, or its network acting, in one process with one
thread, without environments, replay and cluster. int8 is acting alone; as its products are XLA's,
it stands beside float32 compiled by XLA too, and "pull" is what rounding the parameters costs.

The machine's speed drifts, so all numbers of a network alternate within each round, and what counts
is the median of their ratios round by round. Times are of the process' own CPU, which others on the
machine slow down but do not take part in.
"""

import argparse
import os
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.config.precision import PRECISIONS
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.flags import run_folder
from ps_dqn.learning import loss_scaling
from ps_dqn.learning.learner import local_optimizer_slots, make_learner
from ps_dqn.replay.batch import zero_batch
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing.actor import Actor

NETWORKS: dict[str, tuple[EnvironmentSpec, dict[str, Any]]] = {
    "MLP 120-84": (
        EnvironmentSpec((8,), np.dtype(np.float32), 4, None),
        {"hidden_sizes": (120, 84), "batch_size": 64, "local_updates": 16},
    ),
    "MLP 512-512": (
        EnvironmentSpec((64,), np.dtype(np.float32), 8, None),
        {"hidden_sizes": (512, 512), "batch_size": 256, "local_updates": 4},
    ),
    "Nature": (
        EnvironmentSpec((84, 84, 4), np.dtype(np.uint8), 6, None),
        {"network": "nature", "hidden_sizes": (512,), "batch_size": 32, "local_updates": 2},
    ),
}
XLA = "float32 XLA"
ACTING = (*PRECISIONS, XLA, "int8")
SHARED = {"value_distribution": "none", "layer_norm": False}
# Numbers that make bfloat16 and float16 worth it, by the names of Linux.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "avx512_fp16", "amx_fp16")


def observed(spec: EnvironmentSpec, shape: tuple[int, ...]) -> np.ndarray:
    """Random observations."""
    rng = np.random.default_rng(0)
    if spec.observation_dtype == np.uint8:
        return rng.integers(0, 256, shape, np.uint8)
    return rng.normal(size=shape).astype(np.float32)


def updating(name: str, precision: str) -> Callable[[], Any]:
    """A worker's update loop, which returns as many things as it made updates."""
    spec, values = NETWORKS[name]
    config = Config.from_values(SHARED | values | {"precision": precision})
    network = networks.build(config.network, config.value, spec, 0, precision)
    zeros = zero_batch(config, spec)
    batch = zeros._replace(
        observations=observed(spec, zeros.observations.shape),
        next_observations=observed(spec, zeros.next_observations.shape),
        weights=np.ones_like(zeros.weights),
    )
    online = tf.constant(network.initial)
    slots = tf.zeros((local_optimizer_slots(config), network.num_parameters))
    scale = [2.0**10, 0.0, 0.0] if config.precision.scales_loss else loss_scaling.NONE
    numbers = tf.constant(0.0), tf.constant(1e-4), tf.constant(0.1), tf.constant([1, 2])
    learner = make_learner(config, network)
    inputs = [online, online, slots, *numbers, type(batch)(*map(tf.constant, batch))]
    inputs.append(tf.constant(scale, tf.float32))
    updates = config.parameter_server.local_updates
    return lambda: [learner(*inputs).vector.numpy()] * updates


def acting(name: str, kind: str, num_envs: int) -> dict[str, Callable[[], Any]]:
    """A step of so many environments, and for int8 what it does at a pull, by what they are."""
    spec, values = NETWORKS[name]
    config = Config.from_values(SHARED | values)
    whose = config.network, config.value, spec, 0
    full = networks.build(*whose)
    online = tf.constant(full.initial)
    shown = tf.constant(observed(spec, (num_envs, *spec.observation_shape)))
    state = tf.zeros((num_envs, 0))
    if kind == "int8":
        rounded = networks.build(*whose, "int8")
        act = tf.function(rounded.act, jit_compile=True, autograph=False)
        pull = tf.function(lambda each: rounded.quantized(full.cut(each)), autograph=False)
        weights = pull(online)
        return {
            "acting": lambda: [act(weights, shown, state)[0].numpy()],
            "pull": lambda: [pull(online)[0].numpy()],
        }
    network = full if kind == XLA else networks.build(*whose, kind)
    act = tf.function(network.act, jit_compile=kind == XLA, autograph=False)
    return {"acting": lambda: [act(online, shown, state)[0].numpy()]}


def agreement(folder: pathlib.Path, steps: int) -> None:
    """How often int8 chooses as float32 does, where a run's best network plays."""
    config, found = run_folder.read(folder)
    actor = Actor(config, 0)
    spec = actor.environments.spec
    whose = config.network, config.value, spec, config.run.seed
    full, rounded = networks.build(*whose), networks.build(*whose, "int8")
    online = tf.constant(found.state.average)
    weights = rounded.quantized(full.cut(online))
    acts = tf.function(full.act, autograph=False)
    rounds = tf.function(rounded.act, jit_compile=True, autograph=False)
    same = 0
    for _ in range(steps):
        observations, state, masks = map(tf.constant, actor.acting)
        chosen, state, _ = acts(online, observations, state, None, masks)
        same += int(np.sum(chosen == rounds(weights, *actor.acting[:2], None, masks)[0]))
        actor.step(Acted(chosen.numpy(), state.numpy()), np.full(len(chosen), 0.05))
    made = steps * actor.environments.num_envs
    print(f"{folder}: int8 and float32 choose the same in {same:,} of {made:,} steps")


def cpu_seconds(call: Callable[[], Any], seconds: float) -> float:
    """Of the processor, for one update or one step."""
    done, began = 0, time.process_time()
    while time.process_time() - began < seconds:
        done += len(call())
    return (time.process_time() - began) / done


def instructions() -> str:
    """Which of `INSTRUCTIONS` the processor has."""
    with open("/proc/cpuinfo") as file:
        words = set(file.read().split())
    return ", ".join(each for each in INSTRUCTIONS if each in words) or "none of them"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of CPU, of each in each round")
    parser.add_argument("--acting", type=int, default=32, help="environments that are acted in")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="comma separated")
    parser.add_argument("--agreement", type=pathlib.Path, help="of this run's best network instead")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if options.agreement:
        agreement(options.agreement, steps=500)
        return
    print(f"of {', '.join(INSTRUCTIONS)} this processor has {instructions()}")
    print("CPU ms, and times float32: median of rounds (lowest to highest)")
    for name in options.networks.split(","):
        compare(name, "update", {each: updating(name, each) for each in PRECISIONS}, options)
        calls = {each: acting(name, each, options.acting) for each in ACTING}
        steps = {each: found["acting"] for each, found in calls.items()}
        compare(name, "acting", steps, options)
        pull = cpu_seconds(calls["int8"]["pull"], options.seconds)
        print(f"{name:12} pull    int8        {1e3 * pull:9.3f} ms", flush=True)


def compare(
    name: str, what: str, calls: dict[str, Callable[[], Any]], options: argparse.Namespace
) -> None:
    """Times each of them in turn, and prints a row for each."""
    taken: dict[str, list[float]] = {each: [] for each in calls}
    for call in calls.values():
        call()  # traced and compiled
    for _ in range(options.rounds):
        for each, call in calls.items():
            taken[each].append(cpu_seconds(call, options.seconds))
    for each, times in taken.items():
        ratios = [a / b for a, b in zip(times, taken["float32"], strict=True)]
        print(
            f"{name:12} {what:7} {each:11} {1e3 * statistics.median(times):9.3f} ms  "
            f"{statistics.median(ratios):5.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
