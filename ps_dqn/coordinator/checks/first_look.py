"""A first look at what is acted in, before there is a run directory or any task."""

import contextlib
import dataclasses
import sys
import threading
import traceback
from collections.abc import Iterator

from ps_dqn import environments, user_code
from ps_dqn.config import Config, Environment
from ps_dqn.coordinator.checks import normalizing
from ps_dqn.environments import EnvironmentSpec, alike, overdue
from ps_dqn.errors import UsageError
from ps_dqn.run.signals import WRONG_USAGE

# A step of one environment that takes as long as this is worth being made while learning (seconds).
SLOW_STEP = 0.001
# People hear of what takes longer (seconds).
PATIENCE = 5.0


def at_environment(config: Config) -> tuple[Config, EnvironmentSpec]:
    """Refuses what cannot be acted or evaluated in, and settles what was left to the program.

    Raises:
        UsageError: with the flag, its value and what to do.
    """
    options = config.parameter_server
    is_open = options.overlap == "auto"
    with _in_time(config.environment):
        spec, looks = environments.describe_and_look(config.environment, is_strict=is_open)
    if is_open:
        makes_none = config.demonstrations.offline or config.replay.replay == "rollout"
        makes_none |= config.topology.is_shared
        takes_time = looks.seconds >= SLOW_STEP or config.topology.has_remote_environments
        is_worth_it = takes_time and not makes_none
        options = dataclasses.replace(options, overlap="on" if is_worth_it else "off")
        config = dataclasses.replace(config, parameter_server=options)
    config = normalizing.settle(config, looks)
    if config.environment.eval_env_kwargs:
        with _in_time(config.environment.in_evaluations), _in_evaluations(config.environment):
            other = environments.describe(config.environment.in_evaluations)
        alike.check(f"--eval_env_kwargs={config.environment.eval_env_kwargs}", other, spec)
    return config, spec


@contextlib.contextmanager
def _in_evaluations(options: Environment) -> Iterator[None]:
    """Blames the arguments of evaluations for what is refused: with those of training it was not.

    Raises:
        UsageError: with their flag in the place of the environment's.
    """
    try:
        yield
    except UsageError as error:
        why = str(error).removeprefix(f"--env_id={options.env_id}: ")
        raise UsageError(
            f"--eval_env_kwargs={options.eval_env_kwargs}: in evaluations: {why}"
        ) from error


@contextlib.contextmanager
def _in_time(options: Environment) -> Iterator[None]:
    """Says what takes long, and refuses an environment that does not return, which nothing ends."""
    returned = threading.Event()
    watching = (options, threading.get_ident(), returned)
    watch = threading.Thread(target=_watch, args=watching, name="first look", daemon=True)
    watch.start()
    try:
        yield
    finally:
        returned.set()
        watch.join()  # a process with a thread of its own cannot be forked safely


def _watch(options: Environment, thread: int, returned: threading.Event) -> None:
    limit = options.env_timeout
    if returned.wait(min(PATIENCE, limit)):
        return
    if limit > PATIENCE:
        more = f"longer than {PATIENCE:g} s to be made and for its first steps"
        print(f"{options.env_id} takes {more} (--env_timeout={limit:g})", flush=True)
        if returned.wait(min(limit - PATIENCE, threading.TIMEOUT_MAX)):
            return
    print(
        f"error: --env_id={options.env_id}: it does not return within --env_timeout={limit:g} s, "
        f"and is at {_place(thread)}: make it quicker, or wait for longer",
        file=sys.stderr,
        flush=True,
    )
    overdue.end_process(WRONG_USAGE)


def _place(thread: int) -> str:
    """The line of code that a thread is at."""
    frame = sys._current_frames()[thread]
    innermost = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return user_code.place(traceback.walk_stack(frame)) or innermost
