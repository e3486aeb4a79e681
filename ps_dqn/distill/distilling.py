"""Distills a run's network into a smaller one, from its checkpoint to the student's own run."""

import contextlib
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ps_dqn import networks
from ps_dqn.config import Config
from ps_dqn.distill import comparing, learning, leaving, student
from ps_dqn.distill.comparing import Side
from ps_dqn.distill.leaving import Student
from ps_dqn.distill.plan import Plan
from ps_dqn.distill.playing import Game, Kept
from ps_dqn.environments.interface import Interface
from ps_dqn.evaluator.checkpoint_player import CheckpointPlayer
from ps_dqn.export import observations
from ps_dqn.networks.network import QNetwork
from ps_dqn.policy import loading
from ps_dqn.run import stages, terminal
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.state import Counters, State

# From one line to the next (seconds).
LINE_SECONDS = 5.0
# Observations on which actions are compared, which nobody learns from.
HELD_OUT = 1000


def distill(plan: Plan, check: Callable[[], None]) -> None:
    """Distills; the student's folder is whole then.

    Args:
        plan: what is wanted.
        check: raises SystemExit where it is to end.

    Raises:
        UsageError: the checkpoint is of another network, or the environment cannot be made.
    """
    began = time.perf_counter()
    interface = loading.interface_of(plan.teacher, plan.folder)
    teacher = loading.network_of(plan.teacher, interface, plan.checkpoint)
    network = networks.build(
        plan.student.network, plan.student.value, interface.spec, plan.student.run.seed
    )
    env_steps = plan.checkpoint.state.counters.env_steps
    plan.say(
        f"{interface.env_id}: {plan.checkpoint.path.name} of {env_steps:,} env steps teaches; "
        f"{student.describe(plan.teacher)}, {teacher.num_parameters:,} parameters, becomes "
        f"{student.describe(plan.student)}, {network.num_parameters:,}"
    )
    parameters = plan.checkpoint.state.average
    right = _side(plan, "teacher", plan.teacher, teacher, plan.checkpoint, interface)
    with stages.stage("playing observations to compare actions on", plan.say):
        met = observations.play(plan.teacher, interface, teacher, parameters, HELD_OUT)
    check()
    with stages.told("playing and learning", plan.say):
        vector, counters, seconds = _learn(plan, teacher, network, check)
    state = State(vector, vector, vector, (), counters)
    found = Checkpoint(plan.output, state, seconds, float("nan"))
    side = _side(plan, "student", plan.student, network, found, interface)
    with stages.stage("comparing actions", plan.say):
        rows = comparing.compare([right, side], interface, met)
    check()
    distilled = Student(network, state, seconds, time.perf_counter() - began, rows)
    leaving.write(plan, interface, distilled)
    terminal.show(plan.console, comparing.table(rows, plan.console.width))
    plan.say(f"the student is a run of its own, {plan.output}")


def _side(
    plan: Plan,
    who: str,
    config: Config,
    network: QNetwork,
    found: Checkpoint,
    interface: Interface,
) -> Side:
    """Plays the episodes that a network is judged by."""
    with stages.stage(f"playing {plan.episodes:,} episodes with the {who}", plan.say):
        player = CheckpointPlayer(config, plan.episodes, plan.evaluation_seed, interface)
        with contextlib.closing(player):
            returns = player.play(found).returns
    plan.say(
        f"the {who}: mean return {returns.mean():.1f} over {plan.episodes:,} episodes, "
        f"lowest {returns.min():.1f}"
    )
    return Side(who, student.describe(config), network, found.state.average, returns)


def _learn(
    plan: Plan, teacher: QNetwork, network: QNetwork, check: Callable[[], None]
) -> tuple[np.ndarray, Counters, float]:
    """The student's parameters, what was counted, and the seconds that it took."""
    options, parameters = plan.options, plan.checkpoint.state.average
    began = time.perf_counter()
    environment = plan.teacher.environment.in_evaluations
    most = plan.teacher.faults.max_env_failures
    game = Game(environment, most, options, teacher, parameters, network)
    kept, learn = Kept(options.capacity, options.seed), learning.make_learner(network, options)
    learned = learning.begin(network, teacher, parameters)
    shape = (options.updates_at_once, options.batch_size)
    env_steps = episodes = 0
    line = _Line(plan.say, options.env_steps)
    with contextlib.closing(game):
        while env_steps < options.env_steps:
            played = game.step(learned.parameters)
            kept.add(played.seen)
            steps = len(played.seen.rows)
            env_steps, episodes = env_steps + steps, episodes + played.episodes
            if not len(kept):  # every environment was being reset
                continue
            rate = options.learning_rate * max(1 - env_steps / options.env_steps, 0.0)
            learned = learn(learned, tf.constant(rate, tf.float32), kept.draw(shape))
            line.add(steps, played.agreed, learned.loss, env_steps >= options.env_steps)
            check()
    updates = int(learned.updates)
    counters = Counters(updates, updates, env_steps, episodes, updates)
    return learned.parameters.numpy(), counters, time.perf_counter() - began


class _Line:
    """Says every few seconds how far it is."""

    def __init__(self, say: Callable[[str], None], total: int):
        self._say, self._total = say, total
        self._began = self._said = time.perf_counter()
        self._env_steps = 0
        self._clear()

    def _clear(self) -> None:
        self._steps = self._agreed = 0
        self._losses: list[tf.Tensor] = []

    def add(self, steps: int, agreed: int, loss: tf.Tensor, is_last: bool) -> None:
        """After some minibatches, and always after the last.

        Args:
            steps: environment steps since the last time.
            agreed: of these, in which student and teacher would do the same.
            loss: mean of the minibatches, float32 [].
            is_last: nothing follows.
        """
        self._env_steps += steps
        self._steps, self._agreed = self._steps + steps, self._agreed + agreed
        self._losses.append(loss)
        now = time.perf_counter()
        if now - self._said < LINE_SECONDS and not is_last:
            return
        share = self._agreed / self._steps if self._steps else float("nan")
        self._say(
            f"{now - self._began:6.1f} s  env_steps {self._env_steps:,} of {self._total:,}  "
            f"loss {np.mean(self._losses):.4g}  same actions {share:.1%}"
        )
        self._said = now
        self._clear()
