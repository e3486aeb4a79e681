"""A worker's replay: rows of its experience, sampled as n-step transitions or as sequences.

`ring` stores, `samplers` says which items are drawn, and here they are formed: an n-step return is
computed when it is sampled, from the rows that follow.

Shapes: E environments, R rows for each, M minibatches of B items (transitions or sequences), T
trained rows of a sequence and L rows in all, S numbers of recurrent state, n the length of returns
at the moment.
"""

from typing import NamedTuple

import numpy as np

from ps_dqn.environments import Step
from ps_dqn.replay.batch import Sequences, Transitions
from ps_dqn.replay.memory import Memory
from ps_dqn.replay.ring import Ring
from ps_dqn.replay.rows import BEGINS, CONTINUES, IS_TRANSITION, TERMINATED, TRUNCATED, Layout, Rows
from ps_dqn.replay.samplers import Candidates, Drawn, Sampler


class Prepared(NamedTuple):
    """A batch, and the items it was made of."""

    drawn: Drawn
    batch: Transitions | Sequences


class Replay(Memory):
    """Rows of experience for as long as there is room, and what is sampled from them."""

    def __init__(
        self, layout: Layout, sampler: Sampler, rng: np.random.Generator, min_size: int = 1
    ):
        """Allocates all of its memory; with a folder, goes on with the whole rows in it.

        Args:
            layout: what it holds.
            sampler: how it draws; made for this replay alone.
            rng: its own generator; nothing else may draw from it.
            min_size: rows to be there before learning begins.

        Raises:
            UsageError: the folder, the compression or the stacks cannot be as wanted.
        """
        self._item = layout.item
        self._ring = Ring(layout)
        self._sampler = sampler
        self._min_size, self._is_warm = min_size, False
        self._every_env = np.arange(layout.num_envs)
        nothing = np.zeros((0, 0), np.int64)
        self._sampled = Drawn(nothing, nothing, nothing, nothing)
        self._prepared: Prepared | None = None
        self.look_ahead(self._item.n_step, layout.gamma)
        slots = self._ring.per_env // self._item.period
        sampler.attach(layout.num_envs, slots, rng, self._ring.arrays.add)
        if self._ring.arrays.was_there:
            sampler.restore(self._candidates())

    @property
    def is_warm(self) -> bool:
        """Whether it has ever held enough; a compressed replay may shrink a little afterwards."""
        self._is_warm = self._is_warm or self.size >= self._min_size
        return self._is_warm

    @property
    def size_to_learn(self) -> int:
        """Rows that are there before learning begins."""
        return self._min_size

    @property
    def size(self) -> int:
        """Rows that can be sampled now, as all rows they need are there.

        Of sequences, each stands for the rows from its start to the next one's. Rows that are no
        transitions count, so that this depends on nothing but how often the environments were
        stepped.
        """
        first, end, _ = self._candidates()
        return int((end - first).sum()) * self._item.period

    @property
    def nbytes(self) -> int:
        """Memory or disk of everything it holds once it is full (bytes)."""
        return self._ring.nbytes

    def reseed(self, rng: np.random.Generator) -> None:
        """What is drawn from now on is drawn by this generator, its own."""
        self._sampler.reseed(rng)

    def look_ahead(self, n_step: int, gamma: float) -> None:
        """What is drawn from now on has returns of this length, the layout's at most."""
        # γ^0 … γ^n
        self._gammas = np.float32(gamma) ** np.arange(n_step + 1, dtype=np.float32)
        self._following = range(n_step)  # rows of a return

    def append(self, step: Step) -> None:
        """Writes a row for each environment of a step, and one for each last observation left.

        Raises:
            UsageError: frames are to be stored one by one, and an observation is not the stack
                before it moved by one frame.
        """
        if step.failed_envs.size:
            self._ring.cut_off(step.failed_envs)
        ends = np.where(step.terminated, TERMINATED, np.where(step.truncated, TRUNCATED, CONTINUES))
        self.write(
            Rows(
                self._every_env if step.envs is None else step.envs,
                step.observations,
                step.actions,
                step.rewards,
                ends,
                step.is_transition,
                step.states,
                step.masks,
            )
        )
        if step.final_envs.size:
            final = step.final_envs, step.final_observations, step.final_masks
            self.write(Rows.of_observations(*final))

    def write(self, rows: Rows) -> None:
        """Writes one row for each of some environments.

        Raises:
            UsageError: as `append`.
        """
        self._ring.append(rows)

    @property
    def sampled(self) -> Drawn:
        """The items of what was sampled last."""
        return self._sampled

    def newest(self, envs: np.ndarray) -> np.ndarray:
        """The positions of the newest rows of environments, int64 [e]."""
        return self._ring.written[envs] - 1

    def stacks(self, envs: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """The newest stacks of environments, moved by one frame each: [e, k, …]."""
        return self._ring.stacks(envs, frames)

    def break_off(self, envs: np.ndarray) -> None:
        """What comes next in these environments is not what their newest rows have led to."""
        self._ring.break_off(envs)

    def sample(
        self, minibatches: int, batch_size: int, progress: float = 0.0
    ) -> Transitions | Sequences:
        """What was prepared, or else draws as the sampler does, with replacement.

        Raises:
            NothingToDrawError: nothing can be sampled yet.
        """
        prepared = self._prepared or self._draw(minibatches, batch_size, progress)
        (self._sampled, batch), self._prepared = prepared, None
        return batch

    def prepare(self, minibatches: int, batch_size: int, progress: float = 0.0) -> None:
        """Draws what the next `sample` returns, unless that is prepared already.

        Raises:
            NothingToDrawError: nothing can be sampled yet.
        """
        self._prepared = self._prepared or self._draw(minibatches, batch_size, progress)

    def update_priorities(self, errors: np.ndarray) -> None:
        """Sets the priorities of what was sampled last, not of what is prepared, if there are any.

        Args:
            errors: |TD error|, of a sequence one number, float32 [M, B].
        """
        self._sampler.update(self._sampled, errors)

    def close(self) -> None:
        """Writes everything to the disk and lets others have the folder, where it has one."""
        self._ring.arrays.close()

    def _draw(self, minibatches: int, batch_size: int, progress: float) -> Prepared:
        drawn = self._sampler.draw(self._candidates(), minibatches, batch_size, progress)
        base, slots = self._starts(drawn.envs, drawn.items)  # [M, B]
        form = self._sequences if self._item.sequence_length else self._transitions
        return Prepared(drawn, form(base, slots, drawn.weights))

    def _candidates(self) -> Candidates:
        """Items of which all rows are there; item i begins at position i · period."""
        period = self._item.period
        first = -(-self._ring.oldest() // period)
        end = (self._ring.written - self._item.span) // period + 1
        return Candidates(first, np.maximum(first, end), self._is_valid)

    def _starts(self, envs: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where items begin: the first row of their ring, and the slot in it."""
        per_env = self._ring.per_env
        return envs * per_env, items * self._item.period % per_env

    def _is_valid(self, envs: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether items have a transition to train on, bool [K]."""
        rows = self._ring.follow(*self._starts(envs, items), self._item.trained)  # [T, K]
        return (self._ring.flags[rows] & IS_TRANSITION > 0).any(axis=0)

    def _transitions(self, base: np.ndarray, slots: np.ndarray, weights: np.ndarray) -> Transitions:
        rows = self._ring.follow(base, slots, self._following)  # [n, M, B]
        returns, discounts, lengths = self._returns(rows)
        # In one call, as compressed frames that both have are then decompressed once.
        ends = np.stack([slots, slots + lengths])  # [2, M, B]
        both = self._ring.read(base, ends)  # [2, M, B, …]
        masks = self._ring.masks(self._ring.follow(base, ends, range(1))[0])
        return Transitions(
            observations=both[0],
            actions=self._ring.actions[rows[0]],
            returns=returns,
            discounts=discounts,
            next_observations=both[1],
            masks=masks[0],
            next_masks=masks[1],
            weights=weights,
            demonstrated=np.zeros((*weights.shape, 0), np.float32),
        )

    def _sequences(self, base: np.ndarray, slots: np.ndarray, weights: np.ndarray) -> Sequences:
        trained = self._item.trained
        part = slice(trained.start, trained.stop)
        base = base[..., None]  # [M, B, 1]
        steps = slots[..., None] + np.arange(self._item.span)  # [M, B, L]
        rows = self._ring.follow(base, steps, range(1))[0]  # [M, B, L]
        flags = self._ring.flags[rows]
        every = flags & IS_TRANSITION > 0  # [M, B, L]
        is_transition = every[..., part]  # [M, B, T]
        following = self._ring.follow(base, steps[..., part], self._following)
        returns, discounts, lengths = self._returns(following)  # [M, B, T]
        bootstraps = np.array(trained) + np.where(is_transition, lengths, 0)
        return Sequences(
            observations=self._ring.read(base, steps),
            starts=flags & BEGINS > 0,
            states=self._ring.states(rows[..., 0]),
            masks=self._ring.masks(rows),
            actions=np.where(every, self._ring.actions[rows], 0),
            rewards=np.where(every, self._ring.rewards[rows], np.float32(0)),
            returns=np.where(is_transition, returns, np.float32(0)),
            discounts=np.where(is_transition, discounts, np.float32(0)),
            bootstraps=bootstraps.astype(np.int32),
            weights=weights[..., None] * is_transition,
        )

    def _returns(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns over n successive rows or to the end of the episode.

        Args:
            rows: int64 [n, ...].

        Returns:
            Returns and discounts, float32 [...], and how many rewards they have, int64 [...].
        """
        ends = self._ring.ends[rows]
        continues = np.logical_and.accumulate(ends == CONTINUES, axis=0)  # after each row
        lengths = 1 + continues[:-1].sum(axis=0)
        rewards = self._ring.rewards[rows]
        rewards[1:][~continues[:-1]] = 0  # of the next episode
        returns = np.tensordot(self._gammas[:-1], rewards, axes=1)
        terminated = ends == TERMINATED
        terminated[1:] &= continues[:-1]  # the first end counts
        discounts = self._gammas[lengths]
        discounts[terminated.any(axis=0)] = 0
        return returns, discounts, lengths
