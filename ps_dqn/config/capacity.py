"""How large a worker's replay is, and the least it must hold: what a draw spans decides."""

import dataclasses
import math

from ps_dqn.config.replay import REPLAY_CAPACITY, Replay
from ps_dqn.config.topics import Topics
from ps_dqn.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Item:
    """What a draw yields, in rows of one environment: a transition, or a sequence of them."""

    n_step: int  # length of the longest returns
    burn_in: int = 0  # of a sequence: rows before the trained ones
    sequence_length: int = 0  # trained rows of a sequence; 0: a single transition
    period: int = 1  # rows from where an item may begin to where the next one may

    @property
    def trained(self) -> range:
        """The rows that are learned from."""
        return range(self.burn_in, self.burn_in + max(self.sequence_length, 1))

    @property
    def span(self) -> int:
        """Rows from its first to the last it may bootstrap from."""
        return self.trained.stop + self.n_step


def item(config: Topics) -> Item:
    """What an experiment draws: sequences for a recurrent network."""
    replay = config.replay
    # Rows for the longest returns of the run, whatever they are at the moment.
    longest = max(config.learning.n_step, config.resets.n_step_start)
    if not config.network.recurrent_size:
        return Item(longest)
    return Item(longest, replay.burn_in, replay.sequence_length, replay.sequence_period)


def of(replay: Replay) -> int | None:
    """Transitions of a worker's replay; None where the memory it may take decides alone."""
    if replay.replay_capacity is None and not replay.replay_memory:
        return REPLAY_CAPACITY
    return replay.replay_capacity


def check(config: Topics, transitions: int, flag: str) -> None:
    """Refuses a replay too small to learn from.

    Args:
        config: the experiment.
        transitions: of a worker's replay.
        flag: what says so, for people.

    Raises:
        UsageError: with the flags, their values and what to do.
    """
    environment, drawn = config.environment, item(config)
    envs, wanted = environment.envs_per_worker, config.replay.min_replay_size
    if wanted > transitions:
        raise UsageError(f"--min_replay_size={wanted}: must not exceed {flag}")
    # Beside its first row a draw needs the others it spans, rows up to where an item may begin, and
    # the older frames of its first stack.
    others = drawn.span - 1 + drawn.period - 1 + environment.frame_stack - 1
    # Each environment's ring holds these, the first one, the row after them and room to write.
    least = envs * (others + 2)
    options = _options(config, drawn)
    if transitions < least:
        raise UsageError(f"{flag}: {envs} environments with {options} need {least} or more")
    # The newest rows of an environment cannot be drawn, so a full ring offers this many.
    most = envs * (math.ceil(transitions / envs) - others)
    if wanted > most:
        raise UsageError(
            f"--min_replay_size={wanted}: {envs} environments with {flag} and {options} offer "
            f"{most} at most"
        )


def _options(config: Topics, drawn: Item) -> str:
    """What decides on how many rows a draw needs, for people."""
    environment = config.environment
    name = "n_step" if drawn.n_step == config.learning.n_step else "n_step_start"
    text = f"--{name}={drawn.n_step}"
    if environment.frame_stack > 1:
        text += f", --frame_stack={environment.frame_stack}"
    if drawn.sequence_length:
        text += (
            f", --burn_in={drawn.burn_in}, --sequence_length={drawn.sequence_length}, "
            f"--sequence_period={drawn.period}"
        )
    return text
