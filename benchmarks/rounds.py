"""Rounds of many workers in one process: what a way of making them does to learning.

    python benchmarks/rounds.py --workers=1,8 --seeds=5 --flagfile=flags/presets/lunarlander.flags

Each worker has its environments, its replay and its optimizer, as in a cluster; what all of them
learn for a round is computed at once, by one vectorized function. Nobody dies, waits or leaves a
round to evaluate, so this says how many environment steps a result takes, and nothing about time.
Flags that it does not know are the program's.
"""

import argparse
import os
import pathlib
import statistics
import sys
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from csv_rows import append, read
from local_limit import config_of

from ps_dqn import environments, networks, optimizers
from ps_dqn.config import Config, scaling
from ps_dqn.coordinator.evaluating import greedy_play
from ps_dqn.coordinator.evaluating.judging import EVALUATIONS_IN_A_ROW
from ps_dqn.learning import loss_scaling, masking
from ps_dqn.learning.learner import make_gradient
from ps_dqn.learning.minibatches import make_source
from ps_dqn.networks.network import QNetwork
from ps_dqn.parameter_server import vectors
from ps_dqn.parameter_server.aggregation import Combined
from ps_dqn.parameter_server.target import TargetRule
from ps_dqn.worker.calls import Acted
from ps_dqn.worker.playing import schedules
from ps_dqn.worker.playing.actor import Actor, Evaluation

COLUMNS = ("label", "workers", "seed", "solved_at", "agreement", "evaluations")


class Row(NamedTuple):
    """What became of one run."""

    solved_at: int | None  # env steps
    agreement: float  # length of a round's mean change over the mean length of its changes
    evaluations: list[tuple[int, float]]  # env steps, mean return


def make_round(config: Config, network: QNetwork, num_workers: int):
    """What all workers learn for a round.

    A function of online and target [P], the workers' slots [N, S, P], steps made before, learning
    rate, ε, a seed and the workers' batches [N, M, …]. It returns changes [N, P] and slots.
    """
    source, optimizer = make_source(config, network), optimizers.build(config.learning)
    gradient, updates = (
        make_gradient(config, network, source, loss_scaling.Unscaled()),
        config.parameter_server.local_updates,
    )

    @tf.function(jit_compile=True, autograph=False)
    def learn(online, target, slots, steps, learning_rate, epsilon, seed, batches):
        prepared = tf.vectorized_map(lambda batch: source.prepare(target, batch, seed), batches)

        def update(i, parameters, slots):
            others = i, seed, epsilon, loss_scaling.NONE, masking.NONE
            gradients = tf.vectorized_map(
                lambda one: gradient(one[0], target, *one[1:], *others)[0],
                (parameters, batches, prepared),
            )
            step = steps + tf.cast(i + 1, tf.float32)
            parameters, kept = optimizer.apply(
                parameters, tf.unstack(slots, axis=1), gradients, learning_rate, step
            )
            return i + 1, parameters, tf.stack(kept, axis=1)

        _, parameters, slots = tf.while_loop(
            lambda i, *_: i < updates,
            update,
            [tf.constant(0), tf.tile(online[tf.newaxis], [num_workers, 1]), slots],
            maximum_iterations=updates,
        )
        return parameters - online, slots

    return learn


class Rounds:
    """A run of so many workers."""

    def __init__(self, config: Config, num_workers: int):
        self._config = config = config.shared_by(num_workers)
        spec = environments.describe(config.environment)
        self._network = networks.build(config.network, config.value, spec, config.run.seed)
        size = self._network.num_parameters
        self._vectors = vectors.make(config, self._network.initial, size)
        self._target_rule = TargetRule(config)
        self._actors = [Actor(config, worker) for worker in range(num_workers)]
        self._learn = make_round(config, self._network, num_workers)
        num_slots = optimizers.build(config.learning).num_slots
        self._slots = np.zeros((num_workers, num_slots, size), np.float32)
        self._seeds = np.random.default_rng([config.run.seed, 0x5EED])
        self._act = tf.function(self._greedy, jit_compile=True, autograph=False)
        self._version, self._env_steps, self._owed = 0, 0, 0.0

    def run(self, target_return: float) -> Row:
        """Until it is solved or the steps are made."""
        options = self._config.run
        evaluations: list[tuple[int, float]] = []
        agreements, in_a_row, next_evaluation = [], 0, options.eval_period
        while self._env_steps < options.total_env_steps:
            self._collect()
            agreements.append(self._make_version())
            if self._env_steps < next_evaluation:
                continue
            next_evaluation = self._env_steps + options.eval_period
            evaluations.append((self._env_steps, self._evaluate()))
            in_a_row = in_a_row + 1 if evaluations[-1][1] >= target_return else 0
            if in_a_row == EVALUATIONS_IN_A_ROW:
                return Row(self._env_steps, statistics.mean(agreements), evaluations)
        return Row(None, statistics.mean(agreements), evaluations)

    def _greedy(self, parameters, observations):
        return self._network.act(parameters, observations, tf.zeros([observations.shape[0], 0]))[0]

    def _collect(self) -> None:
        """The steps of a round, and at first those that make replay warm."""
        num_workers, num_envs = len(self._actors), self._config.environment.envs_per_worker
        self._owed += self._config.vector_steps_per_push(num_workers)
        epsilons = schedules.at(self._config, self._env_steps).epsilons
        while self._owed >= 1 or not all(actor.memory.is_warm for actor in self._actors):
            observations = np.concatenate([actor.acting[0] for actor in self._actors])
            greedy = self._act(self._vectors.online(), observations).numpy()
            for actor, part in zip(self._actors, np.split(greedy, num_workers), strict=True):
                actor.step(Acted(part, np.zeros((num_envs, 0), np.float32)), epsilons)
            self._owed = max(self._owed - 1, 0.0)
        self._env_steps += sum(actor.take_gathered().env_steps for actor in self._actors)

    def _make_version(self) -> float:
        """A round; how far its changes agree."""
        options, learning = self._config.parameter_server, self._config.learning
        num_workers, updates = len(self._actors), options.local_updates
        now = schedules.at(self._config, self._env_steps)
        batches = [
            actor.memory.sample(updates, learning.batch_size, now.progress)
            for actor in self._actors
        ]
        changes, self._slots = self._learn(
            self._vectors.online(),
            self._vectors.target(),
            self._slots,
            np.float32(self._version * updates),
            np.float32(now.learning_rate),
            np.float32(now.epsilons.mean()),
            self._seeds.integers(2**30, size=2, dtype=np.int32),
            tf.nest.map_structure(lambda *arrays: np.stack(arrays), *batches),
        )
        changes = changes.numpy()
        mean = changes.mean(0)
        before = self._version * updates
        self._version += 1
        combined = Combined(
            mean,
            1.0,
            float(updates),
            scaling.step_size(options, num_workers),
            scaling.momentum(options, num_workers),
            [],
        )
        copies = self._target_rule.is_due(before, before + updates)
        self._vectors.step(combined, self._version, copies)
        return float(np.linalg.norm(mean) / np.linalg.norm(changes, axis=1).mean())

    def _evaluate(self) -> float:
        """The mean return of the moving average."""
        options = self._config.run
        self._vectors.freeze()
        parameters = self._vectors.frozen()
        evaluation = Evaluation(self._config, options.eval_episodes)
        seed = greedy_play.seed_of(options.seed, self._env_steps, 0)
        playing = evaluation.begin(int(seed))
        while playing.episodes:
            greedy = self._act(parameters, playing.observations).numpy()
            playing = evaluation.step(Acted(greedy, np.zeros((len(greedy), 0), np.float32)))
        return float(evaluation.end().returns.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,8")
    parser.add_argument("--first_seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--label", default="rule", help="what the rows are called")
    parser.add_argument("--results", type=pathlib.Path, help="a CSV file that rows are added to")
    options, flags = parser.parse_known_args()
    read(options.results, COLUMNS)  # refuses what cannot be added to before it measures
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for workers in map(int, options.workers.split(",")):
            config = config_of([*flags, f"--seed={seed}", "--overlap=off"])
            threshold = environments.describe(config.environment).reward_threshold
            target_return = config.run.target_return
            row = Rounds(config, workers).run(
                threshold if target_return is None else target_return  # type: ignore[arg-type]
            )
            curve = " ".join(f"{steps // 1000}k:{score:.0f}" for steps, score in row.evaluations)
            values = [options.label, workers, seed, row.solved_at, f"{row.agreement:.2f}", curve]
            print(*values, flush=True)
            if options.results:
                append(options.results, [dict(zip(COLUMNS, values, strict=True))])


if __name__ == "__main__":
    sys.exit(main())
