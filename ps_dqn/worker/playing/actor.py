"""What acts in a worker's environments: to collect experience, or to be evaluated.

Shapes: E environments, S numbers of recurrent state.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import Environments, EnvironmentSpec, Step
from ps_dqn.moments import Moments
from ps_dqn.replay.batch import Batch, zero_batch
from ps_dqn.replay.memory import Memory
from ps_dqn.replay.plan import make_memory
from ps_dqn.worker.calls import Acted, Played, Playing
from ps_dqn.worker.playing.following import Following
from ps_dqn.worker.playing.outside_atoms import OutsideAtoms
from ps_dqn.worker.pushes.push_under_way import PushUnderWay

# Makes what an actor remembers: of the experiment, what is acted in, a generator and a folder.
Remember = Callable[[Config, EnvironmentSpec, np.random.Generator, pathlib.Path | None], Memory]


@dataclasses.dataclass
class Gathered:
    """What was collected since it was last taken."""

    seen: Moments
    env_steps: int = 0
    returns: list[float] = dataclasses.field(default_factory=list)  # of finished episodes
    returns_outside: int = 0  # of those, from many of whose steps they leave v_min to v_max
    failures: dict[str, int] = dataclasses.field(default_factory=dict)  # of environments, by kind

    def counts(self) -> dict[str, int]:
        """As a report names them."""
        failures = {f"env_{kind}": count for kind, count in self.failures.items()}
        return {"env_steps": self.env_steps, "returns_outside": self.returns_outside, **failures}


def epsilon_greedy(
    rng: np.random.Generator,
    greedy: np.ndarray,
    epsilon: float | np.ndarray,
    num_actions: int,
    masks: np.ndarray,
) -> np.ndarray:
    """Replaces each action by a random one that is allowed, with probability epsilon.

    Args:
        rng: generator.
        greedy: the Q-network's best actions, int32 [E].
        epsilon: between 0 and 1, of each [E] or of all.
        num_actions: to choose a random one from.
        masks: those that are allowed, bool [E, A]; [E, 0]: all are.

    Returns:
        int64 [E].
    """
    explores = rng.random(len(greedy)) < epsilon
    if masks.size:
        random_actions = np.where(masks, rng.random(masks.shape), -1.0).argmax(axis=1)
    else:
        random_actions = rng.integers(num_actions, size=len(greedy))
    return np.where(explores, random_actions, greedy)


def rewards_learned(rewards: np.ndarray, clip: float) -> np.ndarray:
    """The rewards that the network hears of, clipped where a clip is given."""
    return np.clip(rewards, -clip, clip) if clip else rewards


def carried_on(states: np.ndarray, step: Step) -> np.ndarray:
    """The recurrent states to act on next, float32 [E, S].

    Args:
        states: the network's after the step, [E, S].
        step: what was done, with the rewards that the network hears of.
    """
    if not states.shape[1]:
        return states
    last = np.stack([step.actions + 1, step.rewards], axis=1)
    after = np.concatenate([states[:, :-2], last], axis=1)
    # Episodes begin without a state: after a reset step, or at once where there is none.
    return np.where(step.begins[:, None], 0, after).astype(np.float32)


class Actor:
    """Collects with epsilon-greedy actions into a memory."""

    def __init__(
        self,
        config: Config,
        worker: int,
        folder: pathlib.Path | None = None,
        failures: pathlib.Path | None = None,
        remember: Remember = make_memory,
        made: Any = None,
    ):
        """Makes the environments and the memory.

        Args:
            config: the experiment.
            worker: index; seeds differ by it.
            folder: where replay is kept; None keeps it in memory.
            failures: where failures of environments are written down; None: where files do not
                last.
            remember: makes the memory.
            made: environments like `Environments` to act in; None: makes them here.
        """
        num_envs = config.environment.envs_per_worker
        self._seed, self._worker = config.run.seed, worker
        where = str(failures or "")
        self.environments = made or Environments(config.environment, num_envs, where)
        self._failures_before = dict(self.environments.failures)
        self._start_environments(0)  # after which is known whether they have masks
        spec, sampling = self.environments.spec, np.random.default_rng(self._seeds(0)[2])
        self.memory: Memory = remember(config, spec, sampling, folder)
        self._reseed(0)
        self.nothing: Batch = zero_batch(config, spec)  # in the place of a batch
        self._is_offline = config.demonstrations.offline
        self._reward_clip = config.learning.reward_clip
        self._states = np.zeros((num_envs, config.state_size), np.float32)
        self._running_returns = np.zeros(num_envs)
        value, gamma = config.value, config.learning.gamma
        self._outside_atoms: OutsideAtoms | None = None
        if value.spans_returns:
            self._outside_atoms = OutsideAtoms(num_envs, gamma, value.v_min, value.v_max)
        self._following = Following(config, spec)
        self._gathered = Gathered(self._following.nothing())
        self.env_steps = 0  # made since it was there, taken or not

    def start(self, env_steps: int) -> None:
        """Starts environments and chance, for a run that has made so many steps already.

        A worker that goes on with a run, or takes the place of one that was lost, would otherwise
        repeat how the run began.
        """
        self._start_environments(env_steps)
        self._reseed(env_steps)

    def _start_environments(self, env_steps: int) -> None:
        environments = self._seeds(env_steps)[0]
        self.environments.reset(int(environments.generate_state(1)[0]) % 2**31)

    def _reseed(self, env_steps: int) -> None:
        """Exploration and sampling begin where a run is that has made so many steps."""
        _, exploration, sampling = map(np.random.default_rng, self._seeds(env_steps))
        self._exploration = exploration
        self.memory.reseed(sampling)

    def _seeds(self, env_steps: int) -> list[np.random.SeedSequence]:
        """Of environments, exploration and sampling."""
        return np.random.SeedSequence([self._seed, self._worker, env_steps]).spawn(3)

    def begin(self, push: PushUnderWay) -> None:
        """A push begins; offline its steps count as made."""
        self.memory.begin()
        while self._is_offline and push.steps_to_make > 0:
            push.stepped()
            self._count(self.environments.num_envs)

    @property
    def acting(self) -> list[np.ndarray]:
        """What to act on: observations, recurrent states float32 [E, S], masks bool [E, A]."""
        return [self.environments.observations, self._states, self.environments.masks]

    def step(self, acted: Acted, epsilon: float | np.ndarray) -> int:
        """Acts, each environment at random with probability epsilon.

        Args:
            acted: what the network makes of what is acted on.
            epsilon: between 0 and 1, of each environment [E] or of all.

        Returns:
            How many whole steps of all environments were made by now that had not been before.
        """
        num_actions, masks = self.environments.num_actions, self.environments.masks
        actions = epsilon_greedy(self._exploration, acted.actions, epsilon, num_actions, masks)
        step = self.environments.step(actions)
        said = {"log_probs": acted.log_probs, "values": acted.values}
        self._take(step._replace(states=self._states, **said), acted.state)
        return 1

    def _take(self, step: Step, after: np.ndarray) -> None:
        """Remembers and counts a step, of all environments or of some.

        Args:
            step: with the states before it.
            after: the network's states after it, of the same environments, float32 [E, S].
        """
        learned = step._replace(rewards=rewards_learned(step.rewards, self._reward_clip))
        self.memory.append(learned)
        self._following.see(learned, self._gathered.seen)
        states = np.array(self._states)  # another array: TensorFlow may still read the one before
        states[step.whose] = carried_on(after, learned)
        self._states = states
        self._running_returns[step.failed_envs] = 0
        self._running_returns[step.whose] += np.where(step.is_transition, step.rewards, 0)
        ended = step.ended_envs
        self._gathered.returns.extend(self._running_returns[ended])
        self._running_returns[ended] = 0
        if self._outside_atoms:
            self._gathered.returns_outside += self._outside_atoms.see(learned)
        self._count(int(step.is_transition.sum()))

    def _count(self, env_steps: int) -> None:
        self._gathered.env_steps += env_steps
        self.env_steps += env_steps

    @property
    def not_taken(self) -> int:
        """Environment steps that `take_gathered` will give; on any thread."""
        return self._gathered.env_steps

    def take_gathered(self) -> Gathered:
        """What was collected since the last call."""
        gathered, self._gathered = self._gathered, Gathered(self._following.nothing())
        now, before = self.environments.failures, self._failures_before
        gathered.failures = {kind: now[kind] - before[kind] for kind in now}
        self._failures_before = dict(now)
        return gathered

    def close(self) -> None:
        """Ends the environments and lets go of files."""
        self.environments.close()
        self.memory.close()


class Evaluation:
    """Plays one episode in each of its environments."""

    def __init__(
        self, config: Config, episodes: int, goes_on: bool = False, is_alone: bool = False
    ):
        """Makes the environments.

        Args:
            config: the experiment.
            episodes: how many are played side by side.
            goes_on: others follow those that end before the last one, which count for nothing; for
                whoever looks at what is observed.
            is_alone: nobody counts its environments' failures; where they are too many, a step
                raises UsageError.
        """
        self._state_size = config.state_size
        evaluated = config.environment.in_evaluations
        most = config.faults.max_env_failures if is_alone else None
        self.environments = Environments(evaluated, episodes, once=not goes_on, most_failures=most)
        self._epsilon = config.run.eval_epsilon
        self._reward_clip = config.learning.reward_clip
        self._max_steps = config.run.max_eval_steps
        self.steps = 0  # made since it began; other threads may read it

    def begin(self, seed: int) -> Playing:
        """Starts episodes that depend on the seed alone."""
        self.environments.reset(seed)
        self._exploration = np.random.default_rng(seed)
        self._returns = np.zeros(self.environments.num_envs)
        self._playing = np.ones(self.environments.num_envs, np.bool_)
        self.steps = 0
        return self._to_play(np.zeros((self.environments.num_envs, self._state_size), np.float32))

    def step(self, acted: Acted) -> Playing:
        """Acts on what the network says, each environment at random with `eval_epsilon`."""
        actions = acted.actions
        if self._epsilon:
            others = self.environments.num_actions, self.environments.masks
            actions = epsilon_greedy(self._exploration, actions, self._epsilon, *others)
        step = self.environments.step(actions)
        failed = step.failed_envs
        self._returns[failed[self._playing[failed]]] = 0  # and another episode is played
        self._returns += np.where(self._playing, step.rewards, 0)
        self._playing &= ~(step.terminated | step.truncated)
        self.steps += 1
        if self.steps >= self._max_steps:
            self._playing[:] = False
        heard = step._replace(rewards=rewards_learned(step.rewards, self._reward_clip))
        return self._to_play(carried_on(acted.state, heard))

    def _to_play(self, states: np.ndarray) -> Playing:
        shown, playing = self.environments, np.int32(self._playing.sum())
        self.shown = Playing(shown.observations, states, shown.masks, playing)
        return self.shown

    def end(self) -> Played:
        """The episodes' returns."""
        return Played(np.int32(1), self._returns)
