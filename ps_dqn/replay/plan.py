"""Which memory an experiment has: a replay with its layout, size and sampler, or a rollout."""

import dataclasses
import json
import math
import pathlib

import numpy as np

from ps_dqn.config import Config, capacity
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.errors import UsageError
from ps_dqn.replay import budget, demonstration_files, demonstrations
from ps_dqn.replay.frames import load_codec, most_bytes
from ps_dqn.replay.memory import Memory
from ps_dqn.replay.mixed import Mixed
from ps_dqn.replay.prioritized import Prioritized
from ps_dqn.replay.replay import Replay
from ps_dqn.replay.rollout import RolloutBuffer
from ps_dqn.replay.rows import Layout, packed_size
from ps_dqn.replay.samplers import Recent, Sampler, Uniform

# What compression is expected to make of a frame when room is divided between the frames and the
# tables of their rows; frames that shrink less leave a few rows of the tables without use.
EXPECTED_RATIO = 16


@dataclasses.dataclass(frozen=True)
class Plan:
    """A worker's replay before it is made."""

    layout: Layout  # without its folder
    nbytes: int  # of everything it holds once it is full
    flag: str  # which decides on its size, for people

    @property
    def capacity(self) -> int:
        """Rows of all environments (transitions); with compression, at most."""
        return self.layout.num_envs * self.layout.rows

    def describe(self, whose: str = "worker") -> str:
        """One line for people; `whose`: what the tasks are that have one each."""
        compression, size = self.layout.compression, budget.show(self.nbytes)
        most = "up to " if compression != "none" else ""
        how = f", frames compressed by {compression}" if compression != "none" else ""
        return f"each {whose}'s replay: {most}{self.capacity:,} transitions in {size}{how}"

    def check_memory(self, num_workers: int, whose: str = "worker") -> None:
        """Refuses a replay that cannot be kept in memory.

        Args:
            num_workers: how many such replays share the machine.
            whose: what the tasks are that have one each.

        Raises:
            UsageError: with the estimate and what to do.
        """
        wanted, memory = num_workers * self.nbytes, budget.available()
        if wanted > memory.nbytes:
            several = f"{num_workers} {whose}s' replays" if num_workers > 1 else "the replay"
            raise UsageError(
                f"{self.flag}: {several} of {budget.show(self.nbytes)} cannot fit into the "
                f"{budget.show(memory.nbytes)} {memory.what}: make it less"
            )


def plan_replay(config: Config, environment: EnvironmentSpec, announced: bool = False) -> Plan:
    """The replay of one worker.

    Args:
        config: the experiment; its replay is not a rollout.
        environment: what is acted in.
        announced: first priorities come with their rows, and are kept too.

    Raises:
        UsageError: what fits is too little, or observations cannot be kept as wanted.
    """
    replay, envs = config.replay, config.environment.envs_per_worker
    contents = _contents(config, environment, announced)
    limit = budget.parse(replay.replay_memory) if replay.replay_memory else None
    transitions = capacity.of(replay)
    period, flag = contents.period, f"--replay_capacity={transitions}"
    rows = 0 if transitions is None else math.ceil(transitions / envs / period) * period
    if limit is not None:
        fitting = contents.rows_that_fit(limit)
        if transitions is None or fitting < rows:
            rows, flag = fitting, f"--replay_memory={replay.replay_memory}"
        capacity.check(config, envs * rows, f"{flag} ({envs * rows:,} transitions)")
    nbytes, arena_bytes = contents.nbytes(rows), 0
    if limit is not None and contents.compressed_bytes:
        arena_bytes, nbytes = _arena(config, contents, rows, limit)
    return Plan(_layout(config, environment, rows, arena_bytes), nbytes, flag)


def make_memory(
    config: Config,
    environment: EnvironmentSpec,
    rng: np.random.Generator,
    folder: pathlib.Path | None,
) -> Memory:
    """The memory of one worker.

    Args:
        config: the experiment.
        environment: what is acted in.
        rng: its own generator.
        folder: where replay is kept; None keeps it in memory.

    Raises:
        UsageError: it does not fit into the machine's memory, or cannot be as wanted.
    """
    if config.replay.replay == "rollout":
        return RolloutBuffer(
            config.vector_steps_per_rollout,
            config.environment.envs_per_worker,
            environment.observation_shape,
            environment.observation_dtype,
            config.environment.frame_stack,
            environment.mask_size,
            config.state_size,
            config.value.learns_policy,
            config.parameter_server.overlap == "on",
            config.learning.gamma,
            rng,
        )
    if config.demonstrations.offline:
        return Mixed(None, _demonstrated(config, environment, rng), share=1.0)
    plan = plan_replay(config, environment)
    if folder is None:
        plan.check_memory(1)
    layout = dataclasses.replace(plan.layout, folder=folder)
    own = Replay(layout, make_sampler(config), rng, config.replay.min_replay_size)
    if not config.demonstrations.demonstrations:
        return own
    shown = _demonstrated(config, environment, rng.spawn(1)[0])
    return Mixed(own, shown, config.demonstrations.demonstration_share)


def _demonstrated(config: Config, environment: EnvironmentSpec, rng: np.random.Generator) -> Replay:
    """A replay of its own for transitions that others made, which is full and stays as it is.

    Raises:
        UsageError: they cannot be read, or are of another environment.
    """
    steps = demonstration_files.read(
        config.demonstrations.demonstrations, environment, config.environment.action_bins
    )
    rings = demonstrations.rings_of(list(demonstrations.episodes(steps)))
    layout = _layout(config, environment, 0, arena_bytes=0)
    rows = max(demonstrations.rows_of(ring, layout) for ring in rings)
    layout = dataclasses.replace(layout, num_envs=len(rings), rows=rows, compression="none")
    sampler = Uniform() if config.replay.replay == "recent" else make_sampler(config)
    replay = Replay(layout, sampler, rng)
    clip = config.learning.reward_clip
    rewards = np.clip(steps.rewards, -clip, clip) if clip else steps.rewards
    demonstrations.fill(replay, steps._replace(rewards=rewards), rings, layout)
    return replay


def make_sampler(config: Config) -> Sampler:
    """How it draws."""
    replay = config.replay
    if replay.replay == "prioritized":
        return Prioritized(replay.priority_alpha, replay.priority_beta, replay.priority_epsilon)
    if replay.replay == "recent":
        # It counts what it draws, which sequences may be.
        smallest = math.ceil(replay.recency_min_size / capacity.item(config).period)
        return Recent(replay.recency_eta, smallest)
    return Uniform()


def _arena(config: Config, contents: budget.Contents, rows: int, limit: int) -> tuple[int, int]:
    """Bytes for compressed frames, and of the whole replay.

    Raises:
        UsageError: frames that do not shrink might not leave enough to learn from, or the
            codec's package is missing.
    """
    load_codec(config.replay.replay_compression)  # or say what is missing
    envs, largest = contents.num_envs, most_bytes(contents.observation_bytes)
    wanted = contents.arena_bytes(limit, rows)
    arena_bytes = min(wanted, envs * rows * largest)
    least = min(rows, arena_bytes // envs // largest)
    capacity.check(
        config,
        envs * least,
        f"--replay_memory={config.replay.replay_memory} (at least {envs * least:,} transitions, "
        f"whatever frames shrink to)",
    )
    return arena_bytes, limit - wanted + arena_bytes


def _contents(config: Config, environment: EnvironmentSpec, announced: bool) -> budget.Contents:
    replay, frames = config.replay, config.environment.frame_stack
    shape = environment.observation_shape[1:] if frames > 1 else environment.observation_shape
    observation_bytes = math.prod(shape) * environment.observation_dtype.itemsize
    compressed_bytes = 0
    if replay.replay_compression != "none":
        if environment.observation_dtype != "uint8":
            raise UsageError(
                f"--replay_compression={replay.replay_compression}: is for images of bytes, and "
                f"observations here are {environment.observation_dtype}; leave it out"
            )
        compressed_bytes = max(observation_bytes // EXPECTED_RATIO, 1)
    return budget.Contents(
        num_envs=config.environment.envs_per_worker,
        observation_bytes=observation_bytes,
        frame_stack=frames,
        compressed_bytes=compressed_bytes,
        prioritized=replay.replay == "prioritized",
        announced=announced,
        persistent=replay.replay_files,
        state_bytes=4 * config.state_size,
        mask_bytes=packed_size(environment.mask_size),
        period=capacity.item(config).period,
    )


def _layout(config: Config, environment: EnvironmentSpec, rows: int, arena_bytes: int) -> Layout:
    return Layout(
        num_envs=config.environment.envs_per_worker,
        rows=rows,
        observation_shape=environment.observation_shape,
        observation_dtype=environment.observation_dtype,
        item=capacity.item(config),
        gamma=config.learning.gamma,
        frame_stack=config.environment.frame_stack,
        compression=config.replay.replay_compression,
        arena_bytes=arena_bytes,
        state_size=config.state_size,
        mask_size=environment.mask_size,
        source=_source(config),
    )


def _source(config: Config) -> str:
    """What observations and rewards are of; files of before name neither wrappers nor a clip."""
    environment, clip = config.environment, config.learning.reward_clip
    kwargs = json.dumps(json.loads(environment.env_kwargs), sort_keys=True)
    parts = [environment.env_id, kwargs]
    if environment.env_wrappers:
        parts.append(f"env_wrappers={environment.env_wrappers}")
    if clip:
        parts.append(f"reward_clip={clip:g}")
    return " ".join(parts)
