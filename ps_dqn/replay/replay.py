"""A worker's replay: rows of its experience, sampled as n-step transitions or as sequences.

`ring` stores, `samplers` says which items are drawn, and here they are formed: an n-step return is
computed when it is sampled, from the rows that follow.

Shapes: E environments, R rows for each, M minibatches of B items (transitions or sequences), T
trained rows of a sequence and L rows in all, S numbers of recurrent state, n the length of returns.
"""

from typing import NamedTuple

import numpy as np

from ps_dqn.replay.ring import BEGINS, CONTINUES, IS_TRANSITION, TERMINATED, TRUNCATED, Layout, Rows
from ps_dqn.replay.samplers import Candidates, Sampler

__all__ = ["CONTINUES", "TERMINATED", "TRUNCATED", "Layout", "Replay", "Sequences", "Transitions"]


class Transitions(NamedTuple):
    """n-step transitions: from a state to the state n steps later or where its episode ended."""

    observations: np.ndarray  # [M, B, …]
    actions: np.ndarray  # int32 [M, B]
    returns: np.ndarray  # float32 [M, B]: Σ γ^k r_k
    discounts: np.ndarray  # float32 [M, B]: γ^length, 0 where the episode terminated
    next_observations: np.ndarray  # [M, B, …]
    weights: np.ndarray  # float32 [M, B]: importance-sampling weights, 1 where none


class Sequences(NamedTuple):
    """Successive rows, of one or more episodes, some of which are trained on.

    The first rows warm up a recurrent state, the last n only end returns (R2D2, Kapturowski et al.
    2019).
    """

    observations: np.ndarray  # [M, B, L, …], L = burn_in + T + n
    starts: np.ndarray  # bool [M, B, L]: begins an episode, so a state is reset before it
    states: np.ndarray  # float32 [M, B, S]: the recurrent state before the first row
    actions: np.ndarray  # int32 [M, B, T], of rows burn_in … burn_in + T - 1
    returns: np.ndarray  # float32 [M, B, T]: Σ γ^k r_k
    discounts: np.ndarray  # float32 [M, B, T]: γ^length, 0 where the episode terminated
    bootstraps: np.ndarray  # int32 [M, B, T]: which of the L rows a return bootstraps from
    weights: np.ndarray  # float32 [M, B, T]: importance weights, 0 where a row is no transition


class Replay:
    """Rows of experience, and what is sampled from them."""

    def __init__(self, layout: Layout, sampler: Sampler, rng: np.random.Generator):
        """Allocates all of its memory; with a folder, goes on with the whole rows in it.

        Args:
            layout: what it holds.
            sampler: how it draws; made for this replay alone.
            rng: its own generator; nothing else may draw from it.

        Raises:
            UsageError: the folder, the compression or the stacks cannot be as asked for.
        """
        self._layout = layout
        self._rows = Rows(layout)
        self._sampler = sampler
        # γ^0 … γ^n
        self._gammas = np.float32(layout.gamma) ** np.arange(layout.n_step + 1, dtype=np.float32)
        slots = self._rows.per_env // layout.period
        sampler.attach(layout.num_envs, slots, rng, self._rows.columns.add)
        if self._rows.columns.was_there:
            sampler.restore(self._candidates())

    def append(
        self,
        envs: np.ndarray,
        observations: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        ends: np.ndarray,
        is_transition: np.ndarray,
        states: np.ndarray | None = None,
    ) -> None:
        """Writes one row for each of some environments.

        Args:
            envs: which environments, int [e], each at most once.
            observations: before the action, [e, …].
            actions: int [e].
            rewards: float [e].
            ends: `CONTINUES`, `TRUNCATED` or `TERMINATED`, [e].
            is_transition: False for an episode's last observation, bool [e].
            states: recurrent states before the action, float32 [e, S]; zeros if not given.

        Raises:
            UsageError: frames are to be stored one by one, and an observation is not the stack
                before it moved by one frame.
        """
        self._rows.append(envs, observations, actions, rewards, ends, is_transition, states)

    @property
    def size(self) -> int:
        """Items that can be sampled now, as all rows they need are there.

        Rows that are no transitions count, so that this depends on nothing but how often the
        environments were stepped.
        """
        first, end, _ = self._candidates()
        return int((end - first).sum())

    @property
    def nbytes(self) -> int:
        """Memory or disk of everything it holds once it is full (bytes)."""
        return self._rows.nbytes

    @property
    def rows_written(self) -> int:
        """Rows ever written, also by earlier processes; of all environments."""
        return int(self._rows.written.sum())

    def sample(
        self, minibatches: int, batch_size: int, progress: float = 0.0
    ) -> Transitions | Sequences:
        """Draws as the sampler does, with replacement.

        Args:
            minibatches: M; several at once cost much less than one by one.
            batch_size: B.
            progress: share of the run that is done, 0 to 1; some samplers change with it.

        Raises:
            ValueError: nothing can be sampled yet.
        """
        drawn = self._sampler.draw(self._candidates(), minibatches, batch_size, progress)
        base, slots = self._places(drawn.envs, drawn.items)  # [M, B]
        if self._layout.sequence_length:
            return self._sequences(base, slots, drawn.weights)
        return self._transitions(base, slots, drawn.weights)

    def update_priorities(self, priorities: np.ndarray) -> None:
        """Sets the priorities of what was sampled last, where there are priorities.

        Args:
            priorities: |TD error|, of a sequence one number, float32 [M, B].
        """
        self._sampler.update(priorities)

    def flush(self) -> None:
        """Waits until everything is on the disk, where it has a folder."""
        self._rows.columns.flush()

    def close(self) -> None:
        """Flushes and lets others have the folder; the replay cannot be used any more."""
        self._rows.columns.close()

    def _candidates(self) -> Candidates:
        """Items of which all rows are there; item i begins at position i · period."""
        period = self._layout.period
        first = -(-self._rows.oldest() // period)
        end = (self._rows.written - self._layout.span) // period + 1
        return Candidates(first, np.maximum(first, end), self._is_valid)

    def _places(self, envs: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where items begin: the first row of their ring, and the place in it."""
        per_env = self._rows.per_env
        return envs * per_env, items * self._layout.period % per_env

    def _trained(self) -> range:
        burn_in = self._layout.burn_in
        return range(burn_in, burn_in + max(self._layout.sequence_length, 1))

    def _is_valid(self, envs: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether items have a transition to train on, bool [K]."""
        rows = self._rows.follow(*self._places(envs, items), self._trained())  # [T, K]
        return (self._rows.flags[rows] & IS_TRANSITION > 0).any(axis=0)

    def _transitions(self, base: np.ndarray, slots: np.ndarray, weights: np.ndarray) -> Transitions:
        rows = self._rows.follow(base, slots, range(self._layout.n_step))  # [n, M, B]
        returns, discounts, lengths = self._returns(rows)
        # In one call, as compressed frames that both have are then decompressed once.
        both = self._rows.read(base, np.stack([slots, slots + lengths]))  # [2, M, B, …]
        actions = self._rows.actions[rows[0]]
        return Transitions(both[0], actions, returns, discounts, both[1], weights)

    def _sequences(self, base: np.ndarray, slots: np.ndarray, weights: np.ndarray) -> Sequences:
        trained = self._trained()
        part = slice(trained.start, trained.stop)
        base = base[..., None]  # [M, B, 1]
        steps = slots[..., None] + np.arange(self._layout.span)  # [M, B, L]
        rows = self._rows.follow(base, steps, range(1))[0]  # [M, B, L]
        flags = self._rows.flags[rows]
        is_transition = flags[..., part] & IS_TRANSITION > 0  # [M, B, T]
        following = self._rows.follow(base, steps[..., part], range(self._layout.n_step))
        returns, discounts, lengths = self._returns(following)  # [M, B, T]
        return Sequences(
            self._rows.read(base, steps),
            flags & BEGINS > 0,
            self._rows.states(rows[..., 0]),
            self._rows.actions[rows[..., part]],
            np.where(is_transition, returns, np.float32(0)),
            np.where(is_transition, discounts, np.float32(0)),
            (np.array(trained) + np.where(is_transition, lengths, 0)).astype(np.int32),
            weights[..., None] * is_transition,
        )

    def _returns(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns over n successive rows or to the end of the episode.

        Args:
            rows: int64 [n, ...].

        Returns:
            Returns and discounts, float32 [...], and how many rewards they have, int64 [...].
        """
        ends = self._rows.ends[rows]
        continues = np.logical_and.accumulate(ends == CONTINUES, axis=0)  # after each row
        lengths = 1 + continues[:-1].sum(axis=0)
        rewards = self._rows.rewards[rows]
        rewards[1:][~continues[:-1]] = 0  # of the next episode
        returns = np.tensordot(self._gammas[:-1], rewards, axes=1)
        terminated = ends == TERMINATED
        terminated[1:] &= continues[:-1]  # the first end counts
        discounts = self._gammas[lengths]
        discounts[terminated.any(axis=0)] = 0
        return returns, discounts, lengths
