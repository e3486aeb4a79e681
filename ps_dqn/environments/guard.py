"""Watches over one environment: what it does wrong ends its episode, and is never learned from.

An environment may raise, or say what is no observation or no reward. The step is then no
transition: the episode is cut off before it, as if time were up, and the environment is made anew.
What was done since it was last seeded is kept, so that the failure can be made again
(`python -m ps_dqn.reproduce`).

The first wrapper around an environment, so that others see what is whole.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import traceback
from typing import Any

import gymnasium
import numpy as np

from ps_dqn import user_code
from ps_dqn.config.faults import ENV_FAILURES
from ps_dqn.environments import masks, overdue, single
from ps_dqn.environments.checked import Checked, Failure

# Where a step's info has what went wrong: its place in `ENV_FAILURES`, from 1.
INFO = "ps_dqn_failure"
# A seed is said anew with the first episode after so many actions, so that no more are to be made
# again.
MOST_ACTIONS = 10_000
# An episode that goes on beyond so many cannot be made again: some never end, and whoever kept all
# of their actions would run out of memory.
MOST_KEPT = 5 * MOST_ACTIONS
NOT_KEPT = (
    f"it cannot be made again: there were more than {MOST_KEPT:,} actions since its seed, and they "
    f"are not kept"
)
# Resets in a row that may fail.
RESETS = 3
# Of each process: failures that are written down.
MOST_WRITTEN = 5
FORMAT = 2  # of the file
_written = 0


class Guard(Checked):
    """One environment, whose failures become episodes that are cut off."""

    def __init__(self, env: gymnasium.Env, recipe: dict[str, Any], folder: str):
        """Watches over an environment.

        Args:
            env: it.
            recipe: how to make another, as `single.make` takes it, and `env_module`; masks in its
                infos are read where it `has_masks`.
            folder: where failures are written down.
        """
        super().__init__(env, recipe.get("has_masks", False))
        overdue.goes_on(None)  # it is made; the next one may take as long
        self._recipe, self._folder = recipe, folder
        self._seeds = np.random.default_rng()
        self._seed = 0  # that was said last
        self._episodes: list[list[int]] = []  # actions since then; none where they are too many
        self._num_actions = MOST_ACTIONS  # the first reset says a seed
        self._observation: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; what fails is tried again in an environment made anew.

        Raises:
            Failure: it fails again and again.
        """
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        for attempt in range(RESETS):
            if seed is None and (attempt or self._num_actions >= MOST_ACTIONS):
                seed = int(self._seeds.integers(2**31))
            if seed is not None:
                self._seed, self._episodes, self._num_actions = seed, [], 0
            self._episodes.append([])
            overdue.goes_on(self._hung)
            try:
                observation, info = self.env.reset(seed=seed, options=options)
                self._observation = self.check(observation, info)
                return self._observation, self._read(info)
            except user_code.FAILURES as error:
                self._write_down(_failure_of(error), "reset")
                if attempt + 1 == RESETS:
                    raise
                seed = None
                self._make_anew()
        raise AssertionError  # the loop returns or raises

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Acts; a failure leaves the observation as it was and cuts the episode off."""
        if self._num_actions == MOST_KEPT:
            self._episodes = []
        if self._episodes:
            self._episodes[-1].append(int(action))
        self._num_actions += 1
        overdue.goes_on(self._hung)
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            self._observation = self.check(observation, info, reward)
            is_over = bool(terminated), bool(truncated)
            return self._observation, float(reward), *is_over, self._read(info)
        except user_code.FAILURES as error:
            failure = _failure_of(error)
            self._write_down(failure, "step")
            self._make_anew()
            return self._observation, 0.0, False, True, {INFO: 1 + ENV_FAILURES.index(failure.kind)}

    def _read(self, info: dict[str, Any]) -> dict[str, Any]:
        """What is read of an info; vectors would stack the rest, which is no two times alike."""
        return {masks.KEY: info[masks.KEY]} if self._mask_size and masks.KEY in info else {}

    def _make_anew(self) -> None:
        """Another environment in the place of this one; the same where none can be made."""
        self._num_actions = MOST_ACTIONS
        try:
            other = single.make(self._recipe)
        except user_code.FAILURES:
            traceback.print_exc()
            return
        with contextlib.suppress(Exception):
            self.env.close()
        self.env = other

    def _hung(self, text: str) -> None:
        """Writes down that the environment did not return; on another thread."""
        is_new = self._episodes[-1:] == [[]]
        self._write_down(Failure("hung", text), "reset" if is_new else "step")

    def _write_down(self, failure: Failure, where: str) -> None:
        """Into the log, and how to make it again into a file; of the first few."""
        global _written
        _written += 1
        if _written > MOST_WRITTEN:
            return
        content = self._recipe | {
            "format": FORMAT,
            "seed": self._seed,
            "episodes": self._episodes,
            "kind": failure.kind,
            "error": str(failure),
        }
        folder = pathlib.Path(self._folder or tempfile.gettempdir())
        path = folder / f"env-failure-{os.getpid()}-{_written}.json"
        said = f"an environment failed in {where} ({failure.kind}): {failure}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")
            if self._episodes:
                said += f"\nto make it again: python -m ps_dqn.reproduce {path}"
            else:
                said += f"\n{NOT_KEPT}; how it was made is in {path}"
        except OSError as error:
            said += f"\nhow to make it again cannot be written down: {error}"
        if failure.__cause__ is not None:
            said = "".join(traceback.format_exception(failure.__cause__)) + said
        print(said, file=sys.stderr, flush=True)  # the worker's log


def _failure_of(error: BaseException) -> Failure:
    if isinstance(error, Failure):
        return error
    failure = Failure("raised", f"{type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
