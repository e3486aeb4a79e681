"""Experience that is recorded once and read by every replay that `replay.py` measures."""

import dataclasses
import pathlib

import numpy as np

FIELDS = ("observations", "actions", "rewards", "terminated", "truncated", "resetting")


@dataclasses.dataclass(frozen=True)
class Tape:
    """T steps of E environments; a step that follows an episode's end is a reset."""

    observations: np.ndarray  # [T + 1, E, …]
    actions: np.ndarray  # [T, E], and so are the others
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    resetting: np.ndarray

    @classmethod
    def load(cls, folder: pathlib.Path, steps: int | None = None) -> "Tape":
        """Maps the files; their pages are not counted as the process's own memory."""
        loaded = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in FIELDS}
        return cls(**{name: array[:steps] for name, array in loaded.items()})

    @property
    def steps(self) -> int:
        return len(self.actions) - 1


def record(kind: str, transitions: int, folder: pathlib.Path) -> None:
    """Plays with random actions and writes a tape of about so many transitions."""
    rng = np.random.default_rng(0)
    if kind == "vectors":
        steps, envs = transitions // 64 + 1, 64
        observations = rng.normal(size=(steps + 1, envs, 4)).astype(np.float32)
        terminated = rng.random((steps, envs)) < 0.005
        resetting = np.roll(terminated, 1, axis=0)
        rewards, actions = np.ones((steps, envs)), rng.integers(2, size=(steps, envs))
        fields = [observations, actions, rewards, terminated, rewards < 0, resetting]
    else:
        fields = play_pong(transitions // 8 + 1, rng)
    for name, field in zip(FIELDS, fields, strict=True):
        np.save(folder / f"{name}.npy", field)


def play_pong(steps: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The fields of a tape of 8 environments."""
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    env = gymnasium.make_vec("ALE/Pong-v5", 8)
    observations, _ = env.reset(seed=0)
    stacks, played, done = [observations.copy()], [], np.zeros(8, np.bool_)
    for _ in range(steps):
        actions = rng.integers(env.single_action_space.n, size=8)
        observations, rewards, terminated, truncated, _ = env.step(actions)
        stacks.append(observations.copy())
        played.append([actions, rewards, terminated, truncated, done])
        done = terminated | truncated
    env.close()
    return [np.array(stacks), *(np.array(field) for field in zip(*played, strict=True))]
