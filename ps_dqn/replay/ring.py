"""What a replay stores: a ring of rows for each environment, in memory or in files.

A row is an observation and what followed it: action, reward, whether the episode ended. The next
observation is the next row's, so it is stored once. An episode's last observation has a row of
its own, which is a bootstrap state but no transition; so no transition joins two episodes.

Of stacked frames, a row keeps only the newest; the older ones are in the rows before it. So an
episode's first stack has rows for its older frames too, which are no transitions.

Shapes: E environments, R rows for each, k frames in a stack, S numbers of recurrent state, A truth
values of a mask that says which actions are allowed (0 without masks), which are stored as bits.
"""

from typing import Any

import numpy as np

from ps_dqn.errors import UsageError
from ps_dqn.replay.arrays import Arrays
from ps_dqn.replay.checksums import Checksums
from ps_dqn.replay.frames import Compressed, Plain
from ps_dqn.replay.rows import (
    BEGINS,
    CONTINUES,
    FORGOTTEN,
    IS_TRANSITION,
    TRUNCATED,
    Layout,
    Rows,
    check_stacks,
    packed_size,
)


class Ring:
    """A ring of rows for each environment; its position p is in row R·env + p mod R.

    Positions are absolute: they count from the first row an environment ever wrote.
    """

    def __init__(self, layout: Layout):
        """Allocates all memory; with a folder, goes on with the whole rows in it.

        Raises:
            UsageError: the folder, the compression or the stacks cannot be as wanted.
        """
        self._stack = layout.frame_stack
        self._period = layout.item.period
        self.per_env = -(-layout.rows // layout.item.period) * layout.item.period  # R
        envs, total = layout.num_envs, layout.num_envs * self.per_env
        signature = self._signature(layout)
        self.arrays = Arrays(layout.folder, signature, layout.must_be_there)
        self._frames = self._storage(layout)
        self.actions = self.arrays.add("actions", (total,), np.int32)
        self.rewards = self.arrays.add("rewards", (total,), np.float32)
        self.ends = self.arrays.add("ends", (total,), np.uint8)
        self.flags = self.arrays.add("flags", (total,), np.uint8)
        facts = [self.actions, self.rewards, self.ends, self.flags]
        self._facts = [(each.view(np.uint8).data, each.itemsize) for each in facts]
        self._masks: np.ndarray | None = None
        self._mask_size, width = layout.mask_size, packed_size(layout.mask_size)
        if width:
            self._masks = self.arrays.add("masks", (total, width), np.uint8)
            self._facts.append((self._masks.reshape(-1).data, width))
        self._states: np.ndarray | None = None
        if layout.state_size:
            shape = (total // layout.item.period, layout.state_size)
            self._states = self.arrays.add("states", shape, np.float32)
        self.written = np.zeros(envs, np.int64)  # the position to be written next
        self._first = np.zeros(envs, np.int64)  # the first position that is usable
        self._continues = np.zeros(envs, np.bool_)  # whether the newest row is a transition
        # All but the oldest frame of each newest stack: what the next one must begin with.
        newest = (envs, self._stack - 1, *self._frame_shape(layout))
        self._newest = np.zeros(newest, layout.observation_dtype)
        self._checksums: Checksums | None = None
        if layout.folder is not None:
            self._checksums = Checksums(self.arrays, total, self._parts)
            if self.arrays.was_there:
                self._recover(self._checksums)

    @property
    def nbytes(self) -> int:
        """Memory or disk of all arrays and of the newest stacks, once full (bytes)."""
        return self.arrays.nbytes + self._newest.nbytes

    def append(self, rows: Rows) -> None:
        """Writes one row for each of some environments.

        Raises:
            UsageError: frames are to be stored one by one, and an observation is not the stack
                before it moved by one frame.
        """
        if self._stack > 1:
            envs, observations = rows.envs, rows.observations
            begins = ~self._continues[envs]
            on = ~begins
            check_stacks(self._stack, envs[on], observations[on], self._newest[envs[on]])
            self._newest[envs] = observations[:, 1:]
            if begins.any():
                self._write_older_frames(envs[begins], observations[begins])
            rows = rows._replace(observations=observations[:, -1])
        self._write(rows)

    def cut_off(self, envs: np.ndarray) -> None:
        """The episodes of environments end with their newest rows, as if time were up.

        What they led to must be written next, as a row that is no transition.
        """
        envs = envs[self._continues[envs]]
        positions = self.written[envs] - 1
        where = envs * self.per_env + positions % self.per_env
        self.ends[where] = np.where(self.ends[where] == CONTINUES, TRUNCATED, self.ends[where])
        if self._checksums is not None:
            self._checksums.update(where, positions)

    def stacks(self, envs: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Frames [e, …] behind the newest ones of environments: [e, k, …]."""
        return np.concatenate([self._newest[envs], frames[:, None]], axis=1)

    def break_off(self, envs: np.ndarray) -> None:
        """What comes next is of other episodes: the newest rows were only led to.

        As after `_recover`: where an episode went on, the row before the newest one is its last
        transition, as if time were up.
        """
        envs = envs[self._continues[envs]]
        base, slots = envs * self.per_env, (self.written[envs] - 1) % self.per_env
        before, newest = self.follow(base, slots, range(-1, 1))
        self._end_before(before, newest)
        self._continues[envs] = False
        if self._checksums is not None:
            self._checksums.update(before, self.written[envs] - 2)
            self._checksums.update(newest, self.written[envs] - 1)

    def _end_before(self, before: np.ndarray, newest: np.ndarray) -> None:
        """The newest rows are no transitions, and end the episodes that led to them."""
        cut = before[(self.flags[before] & IS_TRANSITION > 0) & (self.ends[before] == CONTINUES)]
        self.ends[cut] = TRUNCATED
        self.flags[newest] &= BEGINS

    def oldest(self) -> np.ndarray:
        """The first position of each environment whose observation can be read, int64 [E]."""
        stored = self._frames.oldest(np.arange(len(self.written)))
        oldest = np.maximum(np.maximum(self._first, self.written - self.per_env), stored)
        return oldest + self._stack - 1  # before it are the older frames of its stack

    def follow(self, base: np.ndarray, slots: np.ndarray, offsets: range) -> np.ndarray:
        """Rows at offsets from slots of rings.

        Args:
            base: R·env, int [...].
            slots: positions modulo R, int [...]; with an offset, from -R to less than 2R.
            offsets: D of them.

        Returns:
            int64 [D, ...].
        """
        moved = slots + np.arange(offsets.start, offsets.stop).reshape(-1, *[1] * slots.ndim)
        # Much quicker than a modulo.
        moved -= self.per_env * (moved >= self.per_env)
        moved += self.per_env * (moved < 0)
        return moved + base

    def read(self, base: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Observations at slots of rings, given as for `follow`: [..., *observation shape]."""
        if self._stack == 1:
            return self._frames.read(self.follow(base, slots, range(1))[0])
        rows = self.follow(base, slots, range(1 - self._stack, 1))  # [k, ...]
        return self._frames.read(np.moveaxis(rows, 0, -1))

    def states(self, rows: np.ndarray) -> np.ndarray:
        """Recurrent states of rows at positions that the period divides, float32 [..., S]."""
        if self._states is None:
            return np.zeros((*rows.shape, 0), np.float32)
        return self._states[rows // self._period]

    def masks(self, rows: np.ndarray) -> np.ndarray:
        """Which actions are allowed in rows, bool [..., A]."""
        if self._masks is None:
            return np.ones((*rows.shape, 0), np.bool_)
        return np.unpackbits(self._masks[rows], axis=-1, count=self._mask_size).view(np.bool_)

    def _signature(self, layout: Layout) -> dict[str, Any]:
        """What stored rows depend on; lengths of returns and of sequences may change."""
        return {
            "num_envs": layout.num_envs,
            "rows": self.per_env,
            "observation_shape": layout.observation_shape,
            "observation_dtype": np.dtype(layout.observation_dtype).name,
            "frame_stack": layout.frame_stack,
            "compression": layout.compression,
            "arena_bytes": layout.arena_bytes,
            "period": layout.item.period,
            "state_size": layout.state_size,
            "source": layout.source,
            **({"mask_size": layout.mask_size} if layout.mask_size else {}),
        }

    def _frame_shape(self, layout: Layout) -> tuple[int, ...]:
        shape = layout.observation_shape
        if self._stack == 1:
            return shape
        if not shape or shape[0] != self._stack:
            raise UsageError(
                f"--frame_stack={self._stack}: observations have the shape {shape}, so their first "
                f"axis is not {self._stack} frames: stack as many in the environment, or leave "
                f"--frame_stack out"
            )
        return shape[1:]

    def _storage(self, layout: Layout) -> Plain | Compressed:
        shape, total = self._frame_shape(layout), layout.num_envs * self.per_env
        if layout.compression == "none":
            return Plain(self.arrays, total, shape, layout.observation_dtype)
        return Compressed(
            self.arrays,
            layout.num_envs,
            self.per_env,
            shape,
            layout.arena_bytes,
            layout.compression,
        )

    def _write_older_frames(self, envs: np.ndarray, observations: np.ndarray) -> None:
        for frame in range(self._stack - 1):
            self._write(Rows.of_observations(envs, observations[:, frame]))

    def _write(self, rows: Rows) -> None:
        """Writes rows whose observations are what is stored of them."""
        envs = rows.envs
        positions = self.written[envs]
        where = envs * self.per_env + positions % self.per_env
        self._frames.write(where, rows.observations, positions)
        self.actions[where] = rows.actions
        self.rewards[where] = rows.rewards
        self.ends[where] = rows.ends
        if self._masks is not None:
            bits = 255 if rows.masks is None else np.packbits(rows.masks, axis=1)
            self._masks[where] = bits
        self.flags[where] = np.where(rows.is_transition, IS_TRANSITION, 0) | np.where(
            self._continues[envs], 0, BEGINS
        )
        if self._states is not None:
            kept = positions % self._period == 0
            states = 0 if rows.states is None else rows.states[kept]
            self._states[where[kept] // self._period] = states
        if self._checksums is not None:
            self._checksums.update(where, positions)
        self.written[envs] += 1
        self._continues[envs] = rows.is_transition

    def _parts(self, row: int) -> list[memoryview]:
        """All bytes of a row."""
        parts = [*self._frames.checksum_parts(row)]
        parts += [view[row * size : (row + 1) * size] for view, size in self._facts]
        if self._states is not None and row % self._period == 0:
            parts.append(self._states[row // self._period].data.cast("B"))
        return parts

    def _recover(self, checksums: Checksums) -> None:
        """Goes on after the longest run of whole rows that each environment has."""
        first, end = checksums.recover(len(self.written), self.per_env)
        for env in range(len(first)):
            if end[env] - first[env] < 2:  # not even one transition
                first[env] = end[env] = 0
            # Rows that are left out must never look like successors of rows still to be written:
            # with these flags their checksums fit no more.
            ring = np.arange(env * self.per_env, (env + 1) * self.per_env)
            run = ring[np.arange(first[env], end[env]) % self.per_env]
            self.flags[np.setdiff1d(ring, run)] = FORGOTTEN
        self._first, self.written = first, end.copy()
        self._frames.restore(first, end)
        envs = np.flatnonzero(end > first)
        base, slots = envs * self.per_env, (end[envs] - 1) % self.per_env
        # The environments are new ones, so what the newest rows led to is unknown: they are where
        # their episodes were cut off, and the rows before them are the last transitions.
        before, newest = self.follow(base, slots, range(-1, 1))
        self._end_before(before, newest)
        checksums.update(before, end[envs] - 2)
        checksums.update(newest, end[envs] - 1)
        self.arrays.flush()
