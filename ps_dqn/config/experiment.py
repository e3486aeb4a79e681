"""A whole experiment: every option of every topic.

The flags are generated from the topics' classes, workers receive them as JSON, and the code reads
them as plain attributes, so a default or a limit is written there and nowhere else.
"""

import dataclasses
import functools
import json
import types
import typing
from typing import Any

from ps_dqn.config import checks, scaling
from ps_dqn.config.options import Steps, check, check_needs, settled
from ps_dqn.config.topics import Topics
from ps_dqn.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Config(Topics):
    """A whole experiment, checked. Built from flags; sent to workers as JSON."""

    def __post_init__(self) -> None:
        """Refuses values out of range and combinations that cannot work.

        Raises:
            UsageError: with the flag, its value and what to do.
        """
        options = [
            (field, getattr(getattr(self, group.name), field.name))
            for group in groups()
            for field in dataclasses.fields(group.type)
        ]
        for field, value in options:
            check(field, value)
        check_needs(options)
        checks.check(self)

    def to_json(self) -> str:
        """The whole configuration as one line of JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Config":
        """What `to_json` wrote."""
        return cls.from_values(_flat(json.loads(text)))

    @property
    def values(self) -> dict[str, Any]:
        """All options' names and values."""
        return _flat(dataclasses.asdict(self))

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> "Config":
        """A configuration from option names and values; options not named keep their default."""
        made = {}
        for group in groups():
            given = [field for field in dataclasses.fields(group.type) if field.name in values]
            made[group.name] = group.type(
                **{field.name: settled(field, values[field.name]) for field in given}
            )
        return cls(**made)

    def shared_by(self, num_workers: int) -> "Config":
        """What is left to each of so many workers, which then learn as one would: see `scaling`.

        Raises:
            UsageError: a share of the replay is too small to learn from.
        """
        try:
            return scaling.share_out(self, num_workers)
        except UsageError as error:
            raise UsageError(f"each of {num_workers} workers has its share: {error}") from None

    @property
    def has_pace(self) -> bool:
        """Whether workers wait for each other, so that the servers say when the run is over."""
        return self.parameter_server.is_synchronous or self.topology.is_shared

    @property
    def pulls_again(self) -> bool:
        """Whether a pull may have to wait: for others, or until all servers have made a change."""
        return self.has_pace or self.resets.reset_period > 0 or self.pruning.is_on

    @property
    def keeps_pushes(self) -> bool:
        """Whether workers keep what they push until a snapshot of the servers has it."""
        return self.faults.snapshot_period > 0 and self.parameter_server.has_servers

    @property
    def forgets_experience(self) -> bool:
        """Whether experience is in the memory of workers alone, so that it ends with them.

        A rollout is of the moment. Replay servers say themselves what they have kept.
        """
        is_kept = self.replay.replay_files or self.topology.is_shared
        return self.replay.replay != "rollout" and not is_kept

    @property
    def state_size(self) -> int:
        """Numbers of the recurrent state of one environment; 0 without one.

        An LSTM's output and memory, the last action and its reward.
        """
        units = self.network.recurrent_size
        return 2 * units + 2 if units else 0

    @property
    def vector_steps_per_rollout(self) -> int:
        """Steps of a worker's vector environment that a push learns from (replay=rollout)."""
        return round(scaling.env_steps_per_push(self, 1) / self.environment.envs_per_worker)

    def vector_steps_per_push(self, workers: int) -> float:
        """Steps of a worker's vector environment for each of its pushes, where so many push."""
        return scaling.env_steps_per_push(self, workers) / self.environment.envs_per_worker


def _flat(topics: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {name: value for topic in topics.values() for name, value in topic.items()}


@dataclasses.dataclass(frozen=True)
class Group:
    """One topic of options: its attribute in `Config` and the class that lists them."""

    name: str
    type: Any


def groups() -> tuple[Group, ...]:
    """The topics, in the order in which they are shown to people."""
    return tuple(Group(name, type_) for name, type_ in _hints(Config).items())


def fields() -> list[dataclasses.Field]:
    """All options, in that order."""
    return [field for group in groups() for field in dataclasses.fields(group.type)]


def option_type(group: Group, field: dataclasses.Field) -> Any:
    """The Python type of one option, without the None of an optional one."""
    hint = _hints(group.type)[field.name]
    if hint in (Steps, Steps | None):
        return Steps
    if isinstance(hint, types.UnionType):
        return next(each for each in typing.get_args(hint) if each is not type(None))
    return hint


@functools.cache  # a command asks for each option, some thousand times in all
def _hints(of: type) -> dict[str, Any]:
    return typing.get_type_hints(of)
