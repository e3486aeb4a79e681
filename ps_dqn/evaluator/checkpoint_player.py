"""Plays greedy episodes with saved parameters: what the evaluator does, once or again and again."""

import collections
import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from ps_dqn import environments, networks
from ps_dqn.config import Config
from ps_dqn.environments import Environments, alike
from ps_dqn.environments.interface import Interface
from ps_dqn.policy import loading
from ps_dqn.run.checkpoints import Checkpoint
from ps_dqn.worker.calls import Acted, Playing
from ps_dqn.worker.playing.actor import Evaluation

# Of a row of scores, after the counters.
COLUMNS = ("seconds", "return_mean", "return_median", "return_min", "return_max")


@dataclasses.dataclass(frozen=True)
class Score:
    """The returns of greedy episodes with a checkpoint."""

    checkpoint: Checkpoint
    returns: np.ndarray  # of each episode, float64 [episodes]
    failures: int = 0  # of environments; their episodes were played again

    def describe(self) -> str:
        """The rest of a line for people."""
        returns, path = self.returns, self.checkpoint.path
        return (
            f"{path.name} of {self.checkpoint.state.counters.env_steps:,} env steps: "
            f"{len(returns)} greedy episodes, mean return {returns.mean():.1f}, "
            f"median {np.median(returns):.1f}, "
            f"from {returns.min():.1f} to {returns.max():.1f}{self._failed()}"
        )

    def _failed(self) -> str:
        """That environments did, for people."""
        if not self.failures:
            return ""
        times = "once" if self.failures == 1 else f"{self.failures:,} times"
        return f"; the environment failed {times}, and those episodes were played again"

    def as_row(self) -> dict[str, float]:
        """A row with `COLUMNS`."""
        returns = self.returns
        return {
            "seconds": self.checkpoint.seconds,
            "return_mean": float(returns.mean()),
            "return_median": float(np.median(returns)),
            "return_min": float(returns.min()),
            "return_max": float(returns.max()),
        }


class CheckpointPlayer:
    """The network and the environments of a run, for any of its checkpoints."""

    def __init__(self, config: Config, episodes: int, seed: int, interface: Interface | None):
        """Makes them.

        Args:
            config: of the run.
            episodes: to be played of each checkpoint, side by side.
            seed: of the episodes; the same for each checkpoint.
            interface: of the run; None: its folder has none.

        Raises:
            UsageError: the environment cannot be made, or the run's network does not fit it.
        """
        options = config.environment.in_evaluations
        environment = environments.describe(options)
        if interface is not None:
            alike.check_again(options, environment, interface.spec)
        self.network = networks.build(config.network, config.value, environment, config.run.seed)
        self._evaluation = Evaluation(config, episodes, is_alone=True)
        self._seed, self.returns = seed, np.zeros(episodes)
        self._greedy = tf.function(self.network.act, autograph=False)

    @property
    def environments(self) -> Environments:
        """In which the episodes are played."""
        return self._evaluation.environments

    def play(self, checkpoint: Checkpoint) -> Score:
        """Plays the episodes with the average of the parameters, as evaluations of training do."""
        before = sum(self.environments.failures.values())
        collections.deque(self.steps(checkpoint, self._seed), maxlen=0)
        failures = sum(self.environments.failures.values()) - before
        return Score(checkpoint, self.returns, failures)

    def steps(self, checkpoint: Checkpoint, seed: int) -> Iterator[Playing]:
        """Plays likewise, on a seed; what is seen before each step and at the end.

        After that, `returns` has those of the episodes.

        Raises:
            UsageError: the checkpoint is of another network, or the environments keep failing.
        """
        loading.check_size(self.network, checkpoint)
        parameters = tf.constant(checkpoint.state.average)
        playing = self._evaluation.begin(seed)
        yield playing
        while playing.episodes:
            observations, state, masks = map(tf.constant, playing[:3])
            acted = self._greedy(parameters, observations, state, masks=masks)
            playing = self._evaluation.step(Acted(*(each.numpy() for each in acted)))
            yield playing
        self.returns = self._evaluation.end()[1]

    def close(self) -> None:
        """Ends the environments."""
        self.environments.close()
