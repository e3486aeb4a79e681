"""What an actor has collected and not handed over: rows that wait for their first priorities.

The error of an n-step transition is known once its last state was acted on, whose value the network
has said then. So rows are held back for n steps, and each leaves with the error of the transition
that begins with it (Horgan et al. 2018, arXiv:1803.00933), by the actor's own copy of the network.

Shapes: S vector steps, E environments, A actions.
"""

import collections
import secrets
from typing import NamedTuple

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import EnvironmentSpec, Step
from ps_dqn.replay import parcels
from ps_dqn.replay.elsewhere import Elsewhere
from ps_dqn.replay.parcels import Parcel
from ps_dqn.replay.rows import CONTINUES, TERMINATED, TRUNCATED, check_stacks


class _Held(NamedTuple):
    """A step, and what the network said of the states that were acted on."""

    step: Step
    ends: np.ndarray  # uint8 [E]
    taken: np.ndarray  # value of the action, float32 [E]
    best: np.ndarray  # value of the best action that was allowed, float32 [E]


class Outbox(Elsewhere):
    """Steps that are on their way to replay servers; nothing is sampled here."""

    def __init__(self, config: Config, environment: EnvironmentSpec, num_servers: int):
        """Has nothing.

        Args:
            config: the experiment.
            environment: what is acted in.
            num_servers: environment i goes to server i mod this.
        """
        self._n_step, self._gamma = config.learning.n_step, config.learning.gamma
        self._stack, self._mask_size = config.environment.frame_stack, environment.mask_size
        self._num_servers = num_servers
        self._sender, self._number = secrets.randbits(62), 0
        self._held: collections.deque[_Held] = collections.deque()
        self._ready: list[tuple[_Held, np.ndarray]] = []  # with errors, float32 [E]
        self._on_the_way: list[np.ndarray] = []  # parcels of which nobody has said that they came
        self._num_envs = config.environment.envs_per_worker
        self.is_lacking = True  # not every server has enough to learn from

    def append(self, step: Step) -> None:
        """Takes one step of every environment, with the values of all actions.

        Raises:
            UsageError: frames are to be sent one by one, and an observation is not the stack before
                it moved by one frame.
        """
        assert step.values is not None
        if step.failed_envs.size and self._held:
            before = self._held[-1].ends  # as `Ring.cut_off`, which sees no rows of these
            cut = step.failed_envs[before[step.failed_envs] == CONTINUES]
            before[cut] = np.where(self._held[-1].step.is_transition[cut], TRUNCATED, CONTINUES)
        ends = np.where(step.terminated, TERMINATED, np.where(step.truncated, TRUNCATED, CONTINUES))
        values = step.values
        taken = np.take_along_axis(values, step.actions[:, None].astype(np.int64), 1)[:, 0]
        if self._mask_size and step.masks is not None:
            values = np.where(step.masks, values, -np.inf)
        if self._stack > 1 and self._held:
            self._check_stacks(step)
        # Some environments write their next observations where these are.
        step = step._replace(observations=step.observations.copy())
        self._held.append(_Held(step, ends.astype(np.uint8), taken, values.max(axis=1)))
        if len(self._held) > self._n_step:
            errors = self._errors()
            self._ready.append((self._held.popleft(), errors))

    def _check_stacks(self, step: Step) -> None:
        """Refuses what servers could not put together again from the newest frames.

        Raises:
            UsageError: an observation is not the stack before it moved by one frame.
        """
        before = self._held[-1].step
        goes_on = before.is_transition.copy()
        goes_on[before.final_envs] = False
        envs = np.flatnonzero(goes_on)
        check_stacks(self._stack, envs, step.observations[envs], before.observations[envs, 1:])

    def take(self) -> list[np.ndarray]:
        """What is ready, as one parcel for each server, uint8; empty where nothing is.

        A closure may be cut off before all servers have answered: they then get the same parcels
        again, and those that had them already know them by their number.
        """
        if self._on_the_way:
            return self._on_the_way
        ready, self._ready = self._ready, []
        if not ready:
            return [np.empty(0, np.uint8)] * self._num_servers
        self._number += 1
        self._on_the_way = [self._parcel(ready, server) for server in range(self._num_servers)]
        return self._on_the_way

    def handed_over(self, rows: int, is_lacking: bool) -> None:
        """What was taken has arrived.

        Args:
            rows: that can be sampled of all servers now.
            is_lacking: one of them has not enough to learn from.
        """
        self._on_the_way = []
        self.rows, self.is_lacking = rows, is_lacking

    def _errors(self) -> np.ndarray:
        """|TD error| of the transitions that begin with the oldest step, float32 [E].

        Where an episode was cut off and its last observation is not acted on, the value of the
        state before stands for that of the last.
        """
        oldest = self._held[0]
        goes_on = oldest.step.is_transition.copy()
        returns, discount = np.zeros(len(goes_on)), 1.0
        for i in range(self._n_step):
            at, following = self._held[i], self._held[i + 1]
            returns[goes_on] += discount * at.step.rewards[goes_on]
            discount *= self._gamma
            led_to = following.best.copy()
            led_to[at.step.final_envs] = at.best[at.step.final_envs]
            cut = goes_on & (at.ends == TRUNCATED)
            returns[cut] += discount * led_to[cut]
            goes_on &= at.ends == CONTINUES
        returns[goes_on] += discount * self._held[self._n_step].best[goes_on]
        return np.abs(returns - oldest.taken).astype(np.float32)

    def _parcel(self, ready: list[tuple[_Held, np.ndarray]], server: int) -> np.ndarray:
        envs = np.arange(server, self._num_envs, self._num_servers)
        steps = [held.step for held, _ in ready]
        width = len(envs)

        def of(arrays: list[np.ndarray], dtype: type) -> np.ndarray:
            return np.stack([array[envs] for array in arrays]).astype(dtype, copy=False)

        is_transition = of([step.is_transition for step in steps], np.bool_)
        ended = np.zeros(is_transition.shape, np.bool_)  # a last observation follows the row
        last = [
            (s, int(env) // self._num_servers, i)
            for s, step in enumerate(steps)
            for i, env in enumerate(step.final_envs)
            if env % self._num_servers == server
        ]
        for s, place, _ in last:
            ended[s, place] = True
        # Older frames: of what follows no transition, and of the parcel's first step.
        comes = np.concatenate([np.ones((1, width), np.bool_), (~is_transition | ended)[:-1]])
        older_of = np.flatnonzero(comes) if self._stack > 1 else np.zeros(0, np.int64)
        shown = np.stack([step.observations[envs] for step in steps])
        frames, older = shown, shown[:0, 0]
        if self._stack > 1:
            frames = shown[:, :, -1]
            older = shown.reshape(-1, *shown.shape[2:])[older_of, :-1]
        finals = [steps[s].final_observations[i] for s, _, i in last]
        final_masks = [self._mask(steps[s].final_masks, i) for s, _, i in last]
        last_frames = np.stack(finals) if finals else np.empty((0, *shown.shape[2:]), shown.dtype)
        masks = [self._masks(step.masks, envs) for step in steps]
        return parcels.pack(
            Parcel(
                self._sender,
                self._number,
                frames,
                of([step.actions for step in steps], np.int32),
                of([step.rewards for step in steps], np.float32),
                of([held.ends for held, _ in ready], np.uint8),
                is_transition,
                of([errors for _, errors in ready], np.float32),
                np.stack(masks),
                older,
                older_of.astype(np.int64),
                last_frames[:, -1] if self._stack > 1 else last_frames,
                np.array([s * width + place for s, place, _ in last], np.int64),
                np.array(final_masks, np.bool_).reshape(len(last), self._mask_size),
            )
        )

    def _masks(self, masks: np.ndarray | None, envs: np.ndarray) -> np.ndarray:
        if masks is None or not self._mask_size:
            return np.ones((len(envs), self._mask_size), np.bool_)
        return masks[envs]

    def _mask(self, masks: np.ndarray | None, index: int) -> np.ndarray:
        return np.ones(self._mask_size, np.bool_) if masks is None else masks[index]
