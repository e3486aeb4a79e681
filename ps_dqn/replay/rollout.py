"""The steps a worker has just made, to learn from at once and forget (PQN, arXiv:2407.04811).

Shapes: T vector steps, E environments, M minibatches of B steps each, S numbers of recurrent state.
"""

import numpy as np

from ps_dqn.environments import Step
from ps_dqn.replay.batch import Rollout, field_specs
from ps_dqn.replay.memory import Memory
from ps_dqn.replay.rows import check_stacks


class RolloutBuffer(Memory):
    """Collects one rollout after the other, each batch of which is all of its steps."""

    def __init__(
        self,
        steps: int,
        num_envs: int,
        observation_shape: tuple[int, ...],
        observation_dtype: np.dtype,
        frame_stack: int,
        mask_size: int,
        state_size: int,
        has_policy: bool,
        is_ahead: bool,
        gamma: float,
        rng: np.random.Generator,
    ):
        """Allocates nothing that is handed out: every rollout has arrays of its own.

        Args:
            steps: T.
            num_envs: E.
            observation_shape: of one observation.
            observation_dtype: as observations are stored.
            frame_stack: frames of an observation, which are its first axis; 1: it is none.
            mask_size: truth values of a mask of actions.
            state_size: S; above 0, each environment's steps are kept together as a sequence.
            has_policy: whether a policy chooses, with probabilities.
            is_ahead: a rollout is made while the one before is learned from.
            gamma: discount per environment step.
            rng: its own generator.
        """
        sizes = {"T": steps, "E": num_envs, "A": mask_size, "S": state_size}
        sizes |= {"P": int(has_policy)}
        sizes |= {"M": 0, "B": 0}  # the order comes with a sample
        self._specs = field_specs(Rollout, sizes, observation_shape, observation_dtype)
        self._steps, self._num_envs, self._frame_stack = steps, num_envs, frame_stack
        self._is_recurrent, self._gamma = state_size > 0, gamma
        self._is_ahead = is_ahead
        self._begins = np.zeros(num_envs, np.bool_)  # the next step, an episode
        self._rng = rng
        self._rollout = self._allocate()
        self._made = 0

    @property
    def is_warm(self) -> bool:
        """A push makes the steps it needs, those of the next one where it is ahead."""
        return not self._is_ahead or self._made == self._steps

    @property
    def size(self) -> int:
        """Steps of a rollout, whether they are made or not."""
        return self._steps * self._num_envs

    @property
    def nbytes(self) -> int:
        """Memory of one rollout (bytes)."""
        return sum(array.nbytes for array in self._rollout)

    def reseed(self, rng: np.random.Generator) -> None:
        """Orders are from now on drawn by this generator, its own."""
        self._rng = rng

    def begin(self) -> None:
        """Forgets what is there, unless it is ahead: a rollout is of one push."""
        if not self._is_ahead:
            self._made = 0

    def append(self, step: Step) -> None:
        """Takes one step of every environment; at most T until the next sample.

        Raises:
            UsageError: observations are to be stacks, and one is not the one before it moved on.
        """
        t, rollout = self._made, self._rollout
        if t and self._frame_stack > 1:
            on = np.flatnonzero(~self._begins)
            before = rollout.observations[t - 1, on, 1:]
            check_stacks(self._frame_stack, on, step.observations[on], before)
        if t:
            rollout.continues[t - 1, step.failed_envs] = 0  # cut off there
            rollout.starts[t] = self._begins
        else:
            rollout.starts[0] = False  # the state is that of an episode's beginning already
            rollout.states[:] = 0 if step.states is None else step.states
        rollout.observations[t] = step.observations
        rollout.actions[t] = step.actions
        if rollout.log_probs.size:
            rollout.log_probs[t] = step.log_probs
        rollout.rewards[t] = step.rewards
        rollout.discounts[t] = np.where(step.terminated, 0, self._gamma)
        rollout.next_observations[t] = step.next_observations
        rollout.next_observations[t, step.final_envs] = step.final_observations
        if rollout.next_masks.size:
            rollout.masks[t] = step.masks
            rollout.next_masks[t] = step.next_masks
            rollout.next_masks[t, step.final_envs] = step.final_masks
        rollout.continues[t] = ~(step.terminated | step.truncated)
        rollout.weights[t] = step.is_transition
        self._begins = ~step.is_transition
        self._begins[step.final_envs] = True
        self._made += 1

    def sample(self, minibatches: int, batch_size: int, progress: float = 0.0) -> Rollout:
        """The rollout, with an order for M minibatches of B steps; the next one begins.

        Raises:
            ValueError: steps are missing, or M·B is not a multiple of T·E.
        """
        if self._made != self._steps or (minibatches * batch_size) % self.size:
            raise ValueError(
                f"{self._made} of {self._steps} steps, {minibatches}×{batch_size} of {self.size}"
            )
        rollout = self._rollout
        rollout.continues[-1] = 0
        epochs = minibatches * batch_size // self.size
        order = np.concatenate([self._shuffled() for _ in range(epochs)])
        self._rollout, self._made = self._allocate(), 0
        return rollout._replace(order=order.astype(np.int32).reshape(minibatches, batch_size))

    def _shuffled(self) -> np.ndarray:
        """Every step once, int [T·E]; those of a sequence one after the other."""
        if not self._is_recurrent:
            return self._rng.permutation(self.size)
        envs = self._rng.permutation(self._num_envs)
        return (envs[:, None] + self._num_envs * np.arange(self._steps)).ravel()

    def _allocate(self) -> Rollout:
        return Rollout(**{name: np.empty(*spec) for name, spec in self._specs.items()})
