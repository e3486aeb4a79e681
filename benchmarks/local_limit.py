"""What the cluster costs: updates/s without one, of one worker and of two, in one run.

    python benchmarks/local_limit.py
    python benchmarks/local_limit.py --preset=atari --env_steps=12000 --min_replay_size=2000

The limit is the same compiled update loop on the same kind of minibatches in one process with one
thread, with nothing else to do: no environments, no replay, no pull and push. The rows beneath it
do all of that: "loop" in one process, the others on a local cluster. The machine's speed drifts,
so rounds of all four alternate and the medians are compared.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Row = dict[str, str]  # of metrics.csv


def config_of(flags: list[str]):
    from ps_dqn.flags import command_line, experiment

    values = command_line.new_flags()
    experiment.define(values)
    command_line.parse(values, ["local_limit", *flags])
    return experiment.read(values)


def one_process(flags: list[str], seconds: float) -> dict[str, float]:
    """Updates/s of the bare update loop and of the whole loop, without a cluster."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    from ps_dqn import environments, networks
    from ps_dqn.learning import loss_scaling
    from ps_dqn.learning.learner import local_optimizer_slots, make_learner
    from ps_dqn.worker.calls import Acted
    from ps_dqn.worker.playing.actor import Actor

    config = config_of(flags)
    environment = environments.describe(config.environment)
    network = networks.build(config.network, config.value, environment, 0)
    learn, act = make_learner(config, network), tf.function(network.act, autograph=False)
    shape = (local_optimizer_slots(config), network.num_parameters)
    actor = Actor(config, 0)
    memory = actor.memory
    updates = config.parameter_server.local_updates
    rate, epsilon = tf.constant(1e-4), tf.constant(0.1)

    def learn_once(online, slots, steps, batch):
        seed = tf.constant([0, steps])
        numbers = tf.constant(float(steps)), rate, epsilon
        learned = learn(online, target, slots, *numbers, seed, batch, loss_scaling.NONE)
        return online + learned.vector, learned.slots, learned.errors

    def collect(online):
        done = 0
        while done < config.vector_steps_per_push(1) or not memory.is_warm:
            observations, state, masks = map(tf.constant, actor.acting)
            acted = act(online, observations, state, tf.constant([1, done]), masks)
            actor.step(Acted(*(each.numpy() for each in acted)), float(epsilon))
            done += 1

    def sample():
        batch = memory.sample(updates, config.learning.batch_size)
        return type(batch)(*(tf.constant(array) for array in batch))

    online = target = tf.constant(network.initial)
    slots, steps = tf.zeros(shape), 0
    collect(online)
    batch = sample()
    online, slots, errors = learn_once(online, slots, steps, batch)
    rates = {}
    for name in ("limit", "loop"):
        started, done = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            if name == "loop":
                collect(online)
                batch = sample()
            online, slots, errors = learn_once(online, slots, steps, batch)
            slots.numpy()
            if name == "loop":
                memory.update_priorities(errors.numpy())
            steps += updates
            done += updates
        rates[name] = done / (time.perf_counter() - started)
    return rates


def cluster(flags: list[str], workers: int, seconds: float, env_steps: int) -> dict[str, float]:
    """Rates of a training on a local cluster of at least so many env steps."""
    while True:
        first, last = first_and_last(flags, workers, env_steps)
        elapsed = float(last["seconds"]) - float(first["seconds"])
        if elapsed >= seconds / 2:
            names = "updates", "env_steps"
            return {name: (int(last[name]) - int(first[name])) / elapsed for name in names}
        env_steps *= 2  # too few to say how quick it is


def first_and_last(flags: list[str], workers: int, env_steps: int) -> tuple[Row, Row]:
    """The second row of a training's metrics, and its last."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "ps_dqn.coordinator", *flags),
            f"--num_workers={workers}",
            f"--run_dir={folder}",
            f"--total_env_steps={env_steps}",
            f"--eval_period={10 * env_steps}",
            f"--metrics_period={env_steps // 20}",
            "--target_return=inf",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with (pathlib.Path(folder) / "metrics.csv").open() as file:
            rows = [row for row in csv.DictReader(file) if row["train/td_loss"]][1:]
    return rows[0], rows[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="measured in each row (seconds)")
    parser.add_argument(
        "--env_steps", type=int, default=96_000, help="of a cluster's first run, then twice as many"
    )
    parser.add_argument("--one_process", action="store_true", help=argparse.SUPPRESS)
    options, flags = parser.parse_known_args()
    if options.one_process:
        print(json.dumps(one_process(flags, options.seconds)))
        return
    measured: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        command = [
            sys.executable,
            __file__,
            "--one_process",
            f"--seconds={options.seconds}",
            *flags,
        ]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for name, rate in json.loads(output.splitlines()[-1]).items():
            measured.setdefault(name, []).append(rate)
        for workers in (1, 2):
            rates = cluster(flags, workers, options.seconds, options.env_steps)
            measured.setdefault(f"{workers} worker", []).append(rates["updates"])
            measured.setdefault(f"{workers} worker, env steps", []).append(rates["env_steps"])
    medians = {name: statistics.median(rates) for name, rates in measured.items()}
    print(f"median of {options.rounds} rounds (lowest to highest)")
    for name, label in (
        ("limit", "update loop alone, one process"),
        ("loop", "whole loop, one process"),
        ("1 worker", "cluster of 1 worker"),
        ("2 worker", "cluster of 2 workers"),
    ):
        row = f"{label:32} {medians[name]:7,.0f} updates/s ({min(measured[name]):,.0f} to "
        row += f"{max(measured[name]):,.0f})  {medians[name] / medians['limit']:.2f} of the limit, "
        row += f"{medians[name] / medians['loop']:.2f} of the whole loop"
        if f"{name}, env steps" in medians:
            row += f"; {medians[f'{name}, env steps']:,.0f} env steps/s"
        print(row)
    print(f"2 workers / 1 worker             {medians['2 worker'] / medians['1 worker']:.2f}")


if __name__ == "__main__":
    main()
