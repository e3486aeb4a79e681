"""What a run's network reads and what its answers mean, kept where the environment is not there.

`interface.json` in a run's folder has it, so that a policy and an export need neither the
environment nor its packages.
"""

import dataclasses
import json
import pathlib
from typing import Any

import numpy as np

from ps_dqn.config import Config
from ps_dqn.environments import listed, spaces_json
from ps_dqn.environments.listed import OwnActions
from ps_dqn.environments.parts import Part
from ps_dqn.environments.specification import EnvironmentSpec, OwnSpaces
from ps_dqn.errors import FolderError, UsageError, not_written
from ps_dqn.run import disk

FILE = "interface.json"
FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Interface:
    """An environment as whoever acts in it for a trained network has to know it.

    Attributes:
        env_id: name of the environment.
        spec: observations as the network is given them, and its actions.
        own: spaces of the environment itself.
        actions: what the numbers of actions are in it.
        normalizes: the network standardizes quantities itself.
        recurrent_size: units of the network's LSTM, 0 without one.
        reward_clip: of the rewards that a recurrent network hears of, 0 without a clip.
    """

    env_id: str
    spec: EnvironmentSpec
    own: OwnSpaces
    actions: OwnActions
    normalizes: bool
    recurrent_size: int
    reward_clip: float

    @property
    def frame_stack(self) -> int:
        """Frames that whoever acts puts together; 1 where observations are read as they come."""
        frames = self.frames
        return frames[0] if frames else 1

    @property
    def frames(self) -> tuple[int, ...]:
        """Axes before those of an observation of the environment."""
        rank = 1 if self.spec.parts else len(self.own.observation.shape or ())
        shape = self.spec.observation_shape
        return shape[: len(shape) - rank]

    def to_json(self) -> str:
        """As the file has it, one topic a line."""
        lines = [
            f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}"
            for name, value in self.as_dict().items()
        ]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "format": FORMAT,
            "env_id": self.env_id,
            "observation_space": spaces_json.write(self.own.observation),
            "action_space": spaces_json.write(self.own.action),
            "observation": {
                "shape": list(self.spec.observation_shape),
                "dtype": self.spec.observation_dtype.name,
                "rounded_from": self.spec.rounded_from,
                "frame_stack": self.frame_stack,
                "parts": [_part_as_dict(part) for part in self.spec.parts],
            },
            "actions": {
                "number": self.spec.num_actions,
                # Of each part: all are combined, and of the numbers the last part varies fastest.
                "values": [values.tolist() for values in self.actions.values],
                "dtype": self.actions.dtype.name,
                "shape": list(self.actions.shape),
                "branches": list(self.spec.branches),
                "masks": self.spec.has_masks,
            },
            "normalize_observations": self.normalizes,
            "recurrent_size": self.recurrent_size,
            "reward_clip": self.reward_clip,
            "reward_threshold": self.spec.reward_threshold,
        }

    @classmethod
    def from_dict(cls, written: dict[str, Any]) -> "Interface":
        """What `as_dict` was of.

        Raises:
            KeyError, TypeError, ValueError: it is of nothing.
        """
        if written["format"] != FORMAT:
            raise ValueError(f"its format is {written['format']}, and {FORMAT} is known here")
        observation, actions = written["observation"], written["actions"]
        own = OwnSpaces(
            spaces_json.read(written["observation_space"]),
            spaces_json.read(written["action_space"]),
        )
        spec = EnvironmentSpec(
            tuple(observation["shape"]),
            np.dtype(observation["dtype"]),
            actions["number"],
            written["reward_threshold"],
            has_masks=actions["masks"],
            parts=tuple(map(_part_of_dict, observation["parts"])),
            rounded_from=observation["rounded_from"],
            branches=tuple(actions["branches"]),
            own=own,
        )
        values = tuple(map(np.array, actions["values"]))
        return cls(
            written["env_id"],
            spec,
            own,
            OwnActions(values, np.dtype(actions["dtype"]), tuple(actions["shape"])),
            written["normalize_observations"],
            written["recurrent_size"],
            written["reward_clip"],
        )


def of(config: Config, spec: EnvironmentSpec) -> Interface:
    """The interface of an experiment.

    Args:
        config: the experiment.
        spec: of its environment, as `describe` found it.
    """
    assert spec.own is not None  # whoever makes environments says so
    return Interface(
        config.environment.env_id,
        spec,
        spec.own,
        listed.own_actions(spec.own.action, config.environment.action_bins),
        config.network.normalize_observations == "on",
        config.network.recurrent_size,
        config.learning.reward_clip,
    )


def write(folder: pathlib.Path, interface: Interface) -> None:
    """Writes the file into a run's folder.

    Raises:
        FolderError: it cannot be written.
    """
    try:
        with disk.beside(folder / FILE) as temporary:
            temporary.write_text(interface.to_json(), encoding="utf-8")
    except OSError as error:
        raise not_written(folder, error) from None


def read(folder: pathlib.Path) -> Interface | None:
    """What is in a run's folder; None where there is no such file, as in those of older runs.

    Raises:
        FolderError: it cannot be read.
        UsageError: something else is in it.
    """
    path = folder / FILE
    try:
        return Interface.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FolderError(f"{path}: cannot be read ({disk.reason(error)})") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__}: {error})") from None


def _part_as_dict(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "shape": list(part.shape),
        "dtype": part.dtype.name,
        "categories": list(part.categories),
        "rounded_from": part.rounded_from,
    }


def _part_of_dict(written: dict[str, Any]) -> Part:
    return Part(
        written["name"],
        tuple(written["shape"]),
        np.dtype(written["dtype"]),
        tuple(written["categories"]),
        written["rounded_from"],
    )
