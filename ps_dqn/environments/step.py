"""One step of environments that are stepped together, and which of its rows are real."""

from typing import NamedTuple

import numpy as np

NONE = np.zeros(0, np.int64)  # no environments


class Step(NamedTuple):
    """One step of a vector environment of E environments, whatever its way of resetting.

    Where they are stepped one without the other it is of some of them: then the first axis of what
    is of all has those alone.

    A mask says which of the A actions are allowed; without masks there are none, and A is 0.
    """

    observations: np.ndarray  # acted on, [E, …]
    actions: np.ndarray  # counted from 0, int [E]
    rewards: np.ndarray  # float [E]
    terminated: np.ndarray  # bool [E]
    truncated: np.ndarray  # bool [E]
    is_transition: np.ndarray  # False where the step was a reset that ignored the action, bool [E]
    next_observations: np.ndarray  # to act on next, [E, …]
    # Last observations of episodes that the environment has already left. Other ended episodes
    # have theirs in `next_observations`; their next step is the reset.
    final_envs: np.ndarray  # int [e]
    final_observations: np.ndarray  # [e, …]
    # Environments that failed in this step: their episodes were cut off before it.
    failed_envs: np.ndarray = NONE  # int [f]
    masks: np.ndarray | None = None  # of `observations`, bool [E, A]; None: all are allowed
    next_masks: np.ndarray | None = None  # of `next_observations`, likewise
    final_masks: np.ndarray | None = None  # of `final_observations`, bool [e, A]
    # What the network remembered before it, float32 [E, S]; whoever acts adds it.
    states: np.ndarray | None = None
    # Of `actions`, where a policy chose them, float32 [E, 1]; likewise.
    log_probs: np.ndarray | None = None
    # Of all actions in `observations`, where whoever remembers them asks, float32 [E, A]; likewise.
    values: np.ndarray | None = None
    envs: np.ndarray | None = None  # which it is of, int [some of E]; None: all

    @property
    def whose(self) -> np.ndarray | slice:
        """Index of the environments that it is of, in arrays of all of them."""
        return slice(None) if self.envs is None else self.envs

    @property
    def ended_envs(self) -> np.ndarray:
        """Environments whose episodes ended with it, int."""
        places = np.flatnonzero(self.terminated | self.truncated)
        return places if self.envs is None else self.envs[places]

    @property
    def begins(self) -> np.ndarray:
        """Where the next step is an episode's first one, or a reset before it, bool [E]."""
        begins = ~self.is_transition
        if self.envs is None:
            begins[self.final_envs] = True
            return begins
        return begins | np.isin(self.envs, self.final_envs)
