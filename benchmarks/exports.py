"""How long NumPy and TensorFlow take with a network of images, and how large its files are.

    python benchmarks/exports.py
    python benchmarks/exports.py --networks=MinAtar --rounds=9 --seconds=2

The networks are those of the presets minatar and atari, and IMPALA's on the same images as the
latter, with random weights of which a tenth is left. Each is written as `ps-dqn export` does and
asked as the export asks what it has written. Each uses one thread.

The machine's speed drifts, so both alternate within each round, and what counts is the median of
their ratios round by round. Times are of the process' own CPU, which others on the machine slow
down but do not take part in.
"""

import argparse
import os
import pathlib
import statistics
import tempfile
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from gymnasium import spaces
from precision import cpu_seconds

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, interface, raw
from ps_dqn.environments.specification import OwnSpaces
from ps_dqn.export import formats
from ps_dqn.policy import greedy

SCREEN = (84, 84)
ATARI = {"hidden_sizes": (512,), "layer_norm": False}
# A frame, its dtype and the largest number in it, frames, and the configuration.
NETWORKS: dict[str, tuple[tuple[int, ...], str, int, tuple[int, ...], dict[str, Any]]] = {
    "MinAtar": ((10, 10, 4), "bool", 1, (), {"network": "minatar", "hidden_sizes": (128, 128)}),
    "Nature": (SCREEN, "uint8", 255, (4,), ATARI | {"network": "nature"}),
    "IMPALA": (SCREEN, "uint8", 255, (4,), ATARI | {"network": "impala"}),
}
NUM_ACTIONS = 6
KEPT = 0.1  # share of weights
BATCHES = (1, 32)
FORMS = ("npz", "sparse", "savedmodel")


def written(name: str, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """The files of a network, by format."""
    frame, dtype, largest, frames, values = NETWORKS[name]
    config = Config.from_values(values)
    own = OwnSpaces(spaces.Box(0, largest, frame, np.dtype(dtype)), spaces.Discrete(NUM_ACTIONS))
    spec = EnvironmentSpec((*frames, *frame), np.dtype(dtype), NUM_ACTIONS, None, own=own)
    network = networks.build(config.network, config.value, spec, 0)
    rng, vector = np.random.default_rng(0), network.initial.copy()
    for kernel in network.kernels.values():
        vector[kernel] *= rng.random(kernel.stop - kernel.start) < KEPT
    network.assign(vector)
    described = interface.of(config, spec)
    model = greedy.greedy_network(network, described)
    made, paths = formats.Made(network, described, model, {}, "none"), {}
    for form in FORMS:
        paths[form] = folder / form / formats.FORMATS[form].file
        paths[form].parent.mkdir()
        formats.FORMATS[form].write(made, paths[form])
    return paths


def size(path: pathlib.Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return sum(each.stat().st_size for each in files)


def asking(name: str, form: str, path: pathlib.Path, batch: int) -> Callable[[], Any]:
    """Asks a file once; returns as many actions as it was asked for."""
    frame, dtype, _, frames, _ = NETWORKS[name]
    shown = np.random.default_rng(1).integers(0, 2, (batch, *frames, *frame)).astype(dtype)
    answer = formats.FORMATS[form].read(path)
    return lambda: answer({raw.NAME: shown})[greedy.ACTION]


def compare(name: str, paths: dict[str, pathlib.Path], options: argparse.Namespace) -> None:
    """Times NumPy and TensorFlow in turn, and prints a row for each batch."""
    for batch in BATCHES:
        calls = {form: asking(name, form, paths[form], batch) for form in ("npz", "savedmodel")}
        taken: dict[str, list[float]] = {form: [] for form in calls}
        for call in calls.values():
            call()  # traced
        for _ in range(options.rounds):
            for form, call in calls.items():
                taken[form].append(1e3 * cpu_seconds(call, options.seconds))
        ratios = [a / b for a, b in zip(taken["npz"], taken["savedmodel"], strict=True)]
        shown = " | ".join(f"{statistics.median(times):.3f}" for times in taken.values())
        print(
            f"| {name} | {batch} | {shown} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}) |",
            flush=True,
        )


def main() -> None:
    """Prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of CPU, of each in each round")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="comma separated")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    print("| network | batch | NumPy, CPU ms | SavedModel, CPU ms | ratio |\n|---|---|---|---|---|")
    sizes = []
    for name in options.networks.split(","):
        with tempfile.TemporaryDirectory() as folder:
            paths = written(name, pathlib.Path(folder))
            compare(name, paths, options)
            sizes.append([name, *(f"{size(paths[form]):,}" for form in FORMS)])
    print(f"\n| network, bytes | {' | '.join(FORMS)} |\n|---|---|---|---|")
    for row in sizes:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
