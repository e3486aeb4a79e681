"""A trained network that acts: raw observations in, the environment's own actions out.

Shapes: B observations, k frames, A actions, C values (A, or choices of branches).
"""

import dataclasses
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from ps_dqn.environments import raw
from ps_dqn.environments.interface import Interface
from ps_dqn.policy import greedy

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Source:
    """What a policy was made of."""

    checkpoint: str  # name of its file
    env_steps: int  # of training before it
    updates: int
    eval_return: float  # of the evaluation that it was saved for; NaN where there was none


class Policy:
    """The greedy policy of a trained network.

    It always acts alike, and any number of threads may ask it.

    Attributes:
        interface: what its environment shows and takes.
        source: the checkpoint that it is of.
        network: the Keras model that it asks.
    """

    def __init__(self, network: keras.Model, interface: Interface, source: Source):
        """Acts by a model that `greedy.greedy_network` made."""
        self.interface, self.source, self.network = interface, source, network
        signature = {
            each.name: tf.TensorSpec(each.shape, each.dtype, each.name) for each in network.inputs
        }
        self._outputs = tf.function(network, input_signature=[signature], autograph=False)

    @property
    def has_memory(self) -> bool:
        """Whether an action depends on more than the last observation."""
        return bool(self.interface.recurrent_size or self.interface.frames)

    def act(self, observation: Any, mask: Any = None) -> Any:
        """The best action.

        Args:
            observation: as the environment returns it, or a batch as Gymnasium's vectors do.
            mask: which actions are allowed, [A] or [B, A]; None: all are.

        Returns:
            An action of the environment's action space, or an array of B.

        Raises:
            ValueError: it is no observation, or the policy needs to know those before it.
        """
        return self._answer(observation, mask, "act")[0]

    def q_values(self, observation: Any) -> np.ndarray:
        """The values of the actions, float32 [C] or [B, C]; see `act`.

        With branches, those of each part's choices, one part after the other.

        Raises:
            ValueError: as for `act`; or a policy was learned, which has none.
        """
        return self._chosen_by(greedy.Q_VALUES, observation)

    def logits(self, observation: Any) -> np.ndarray:
        """Of a policy that was learned (a3c): its softmax are the actions' probabilities.

        Returns:
            float32 [A] or [B, A]; see `act`.

        Raises:
            ValueError: as for `act`; or values were learned.
        """
        return self._chosen_by(greedy.LOGITS, observation)

    def player(self, batch: int | None = None) -> "Player":
        """What remembers an episode: for stacked frames and recurrent networks, and others too.

        Args:
            batch: episodes side by side, B; None: one, without an axis for it.
        """
        return Player(self, batch)

    def _chosen_by(self, wanted: str, observation: Any) -> np.ndarray:
        has = greedy.chosen_by(self.network.output)
        if has != wanted:
            raise ValueError(f"Policy.{wanted}: this network has none, but Policy.{has}")
        return self._answer(observation, None, wanted)[1]

    def _answer(self, observation: Any, mask: Any, method: str) -> tuple[Any, np.ndarray]:
        if self.has_memory:
            what = "is recurrent"
            if self.interface.frames:
                what = f"reads the last {self.interface.frame_stack} frames"
            raise ValueError(
                f"Policy.{method} knows one observation only, and this network {what}: make "
                f"player = policy.player() and call player.act(observation, reward=...) in each "
                f"step and player.reset() before each episode"
            )
        arrays, is_one = raw.arrays(self.interface, observation)
        outputs = self.outputs(arrays, mask, is_one)
        return self._as_asked(outputs, is_one)

    def _as_asked(self, outputs: Arrays, is_one: bool) -> tuple[Any, np.ndarray]:
        actions, values = outputs[greedy.ACTION], outputs[greedy.chosen_by(outputs)]
        return (self.only(actions), values[0]) if is_one else (actions, values)

    def only(self, actions: np.ndarray) -> Any:
        """The action of a batch of one: a number where actions are `Discrete`, else an array."""
        is_discrete = isinstance(self.interface.own.action, spaces.Discrete)
        return actions[0] if is_discrete else actions[0, ...]

    def outputs(self, arrays: Arrays, mask: Any, is_one: bool) -> Arrays:
        """The network's outputs for its inputs but the mask; see `greedy.greedy_network`."""
        interface, rows = self.interface, len(next(iter(arrays.values())))
        if interface.spec.has_masks:
            arrays = arrays | {greedy.MASK: self._mask(mask, rows, is_one)}
        elif mask is not None:
            raise ValueError(
                f"mask={mask!r:.60}: the run had no masks, so its network was never told of them"
            )
        found = self._outputs({name: tf.constant(each) for name, each in arrays.items()})
        return {name: each.numpy() for name, each in found.items()}

    def _mask(self, mask: Any, rows: int, is_one: bool) -> np.ndarray:
        shape = (rows, self.interface.spec.num_actions)
        if mask is None:
            return np.ones(shape, np.bool_)
        found = np.asarray(mask, np.bool_)
        if found.shape != (shape[1:] if is_one else shape):
            raise ValueError(f"a mask here has the shape {shape[is_one:]}, and not {found.shape}")
        return found.reshape(shape)


class Player:
    """The memory of one episode, or of B side by side; for one thread."""

    def __init__(self, policy: Policy, batch: int | None):
        self._policy, self._batch = policy, batch
        self._rows = 1 if batch is None else batch
        interface = policy.interface
        self._state = np.zeros((self._rows, greedy.state_size(interface)), np.float32)
        self._frames: Arrays = {}  # by input, [B, k, …]
        self._begins = np.ones(self._rows, np.bool_)

    def reset(self, episodes: Any = None) -> None:
        """Forgets what was: the next observation is the first of an episode.

        Args:
            episodes: which of the B begin anew, bool [B]; None: all.
        """
        begins = np.ones(self._rows, np.bool_) if episodes is None else np.asarray(episodes)
        if begins.shape != (self._rows,) or begins.dtype != np.bool_:
            raise ValueError(f"episodes: one truth value for each of {self._rows}, or None for all")
        self._begins |= begins
        self._state[begins] = 0

    def act(self, observation: Any, reward: Any = None, mask: Any = None) -> Any:
        """The best action after all observations of the episode so far.

        Args:
            observation: the newest, as the environment returns it; B of them in a batch.
            reward: what the action before has paid, [] or [B]. Recurrent networks read it; it may
                be left out where all episodes begin, and of those that do it counts as 0.
            mask: which actions are allowed, [A] or [B, A]; None: all are.

        Returns:
            An action of the environment's action space, or an array of B.

        Raises:
            ValueError: it is no observation, or the reward is missing.
        """
        interface, is_one = self._policy.interface, self._batch is None
        arrays, found_one = raw.arrays(interface, observation)
        rows = len(next(iter(arrays.values())))
        if found_one != is_one or rows != self._rows:
            wanted = "one observation" if is_one else f"a batch of {self._rows} observations"
            found = "one" if found_one else f"a batch of {rows}"
            raise ValueError(f"this player takes {wanted} in each step, and was given {found}")
        if interface.frames:
            arrays = self._stacked(arrays)
        if interface.recurrent_size:
            arrays = arrays | {greedy.STATE: self._state, greedy.REWARD: self._rewards(reward)}
        outputs = self._policy.outputs(arrays, mask, is_one)
        self._state = outputs.get(greedy.NEXT_STATE, self._state).copy()
        self._begins[:] = False
        actions = outputs[greedy.ACTION]
        return self._policy.only(actions) if is_one else actions

    def _stacked(self, arrays: Arrays) -> Arrays:
        """With the frames before; the first of an episode is as often there as frames are."""
        frames = self._policy.interface.frame_stack
        for name, newest in arrays.items():
            first = np.repeat(newest[:, None], frames, axis=1)
            before = self._frames.get(name, first)
            moved = np.concatenate([before[:, 1:], newest[:, None]], axis=1)
            begins = self._begins.reshape(-1, *(1,) * newest.ndim)
            self._frames[name] = np.where(begins, first, moved)
        return dict(self._frames)

    def _rewards(self, reward: Any) -> np.ndarray:
        if reward is None:
            if self._begins.all():
                return np.zeros(self._rows, np.float32)
            raise ValueError(
                "this network reads what its last action has paid: act(observation, reward=...), "
                "or reset() where an episode begins"
            )
        rewards = np.asarray(reward, np.float32)
        if rewards.shape != (() if self._batch is None else (self._rows,)):
            raise ValueError(f"rewards: one of each of {self._rows} episodes, not {rewards.shape}")
        return np.where(self._begins, np.float32(0), rewards.reshape(self._rows))
