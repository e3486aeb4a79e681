"""`train`: a run as a call."""

import collections
import contextlib
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ps_dqn.api import arguments, given_environment
from ps_dqn.api.arguments import Option
from ps_dqn.api.child import Child
from ps_dqn.api.given_environment import GivenEnvironment
from ps_dqn.api.measures import Follower, Measures
from ps_dqn.api.run import Run
from ps_dqn.errors import TrainingError, UsageError
from ps_dqn.run import directory, signals
from ps_dqn.run.overwritten import Overwritten

# From one look at the rows of metrics to the next, at most (seconds).
POLL_SECONDS = 0.2
# Of what a run has said, in the text of an error.
LAST_LINES = 20
_STOPPED = (signals.START_AGAIN, signals.INTERRUPTED)

Callback: TypeAlias = Callable[[Measures], bool | None]


def train(
    environment: str | Callable[..., Any] | None = None,
    *,
    preset: str | Sequence[str] | None = None,
    callback: Callback | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool = False,
    verbose: bool = True,
    **options: Option,
) -> Run:
    """Trains a deep Q-network, in processes of their own, and returns when that has ended.

    Where this process ends before, so does the run, in good order. So it does with any exception
    that comes up here, KeyboardInterrupt among them, which is then raised again.

    Args:
        environment: Gymnasium's id, package.module:EnvClass, a class of environments or a
            function that returns one. None: the preset's, the resumed run's, or CartPole-v1.
        preset: names of presets, like rainbow,lunarlander, or a list of them; what is said here
            wins.
        callback: called with each new row of metrics; where it returns True, the run stops, and
            can go on later.
        run_dir: folder for what the run leaves; a run that is there already is resumed. None: a
            new one under runs/.
        resume: go on with the run in `run_dir`, or with the newest under runs/, with its options
            where none are given here.
        verbose: print what the run says.
        **options: the flags of `python -m ps_dqn.coordinator --help`, without their dashes.

    Raises:
        UsageError: something cannot be used as it is given; nothing was trained.
        TrainingError: the run failed.
    """
    if callback is not None and not callable(callback):
        raise UsageError(f"callback={callback!r}: is no function of the rows of metrics")
    given = None
    if environment is not None:
        if "env_id" in options:
            raise UsageError(f"env_id={options['env_id']!r}: the environment is given already")
        if isinstance(environment, str):
            options["env_id"] = environment
        else:
            given = given_environment.named(environment)
            options["env_id"] = given.env_id
    flags = arguments.words(preset, options)
    env_id = arguments.env_id(flags)
    if given is not None and given.pickled is not None and arguments.is_remote(flags):
        raise UsageError(
            f"environment={given.name}: remote tasks cannot import it: define it in a module that "
            f"each of them has"
        )
    folder, is_new = _folder(run_dir, resume, given.name if given else env_id)
    training = _Training(flags, folder, resume, given, verbose)
    try:
        training.run(callback)
        return training.result()
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it is not empty: there was a run
                folder.rmdir()


def _folder(
    run_dir: str | os.PathLike[str] | None, resume: bool, name: str
) -> tuple[pathlib.Path, bool]:
    """The run's folder, and whether it was made for it."""
    if run_dir is not None:
        folder = arguments.path(run_dir)
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"run_dir={folder}: is a file, not a folder: say another")
        return folder, False
    if resume:
        newest = directory.newest()
        if newest is None:
            raise UsageError(
                f"resume=True: no run with a checkpoint under {directory.RUNS}/: say run_dir"
            )
        return newest, False
    return directory.make_new(directory.new_path(name)), True


class _Training:
    """A run that goes on."""

    def __init__(
        self,
        flags: list[str],
        folder: pathlib.Path,
        resume: bool,
        given: GivenEnvironment | None,
        verbose: bool,
    ):
        """Starts it."""
        self._before = Overwritten([])
        if given is not None:
            try:
                self._before = given.write(folder)
            except OSError as error:
                raise UsageError(f"{folder}: cannot be written ({error.strerror})") from None
        words = [*flags, f"--run_dir={folder}", *["--resume"] * resume]
        self._folder, self._verbose = folder, verbose
        self._last: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        self._follower = Follower(folder)
        self._child = Child(words, given_environment.import_path(folder))

    def run(self, callback: Callback | None) -> None:
        """Returns when it has ended; what is raised meanwhile ends it first."""
        try:
            self._follow(callback)
        except BaseException:
            self._end()
            raise
        finally:
            self._child.close()

    def result(self) -> Run:
        """What came of it.

        Raises:
            UsageError: it was refused.
            TrainingError: it failed.
        """
        code = self._child.code
        said = [line.removeprefix("error: ") for line in self._last if line.startswith("error: ")]
        if code == signals.WRONG_USAGE:
            self._before.put_back()
            raise UsageError(said[-1] if said else "\n".join(self._last))
        has_summary = (self._folder / directory.SUMMARY).exists()
        if has_summary and (code == 0 or code in _STOPPED):
            return Run(self._folder)
        how = said[-1] if said else f"the run ended with exit code {code}"
        lines = "\n".join(f"    {line}" for line in self._last)
        raise TrainingError(f"{how}\nthe last lines of {self._folder}:\n{lines}")

    def _follow(self, callback: Callback | None) -> None:
        """Shows lines and calls back until it has ended."""
        while self._child.code is None:
            for line in self._child.lines(POLL_SECONDS):
                self._last.append(line)
                if self._verbose:
                    print(line, flush=True)
            for measures in self._follower.new() if callback is not None else ():
                if callback is not None and callback(measures):
                    self._child.stop()
                    callback = None

    def _end(self) -> None:
        """Ends it in good order; at once where that is interrupted."""
        while self._child.code is None:
            self._child.stop()
            with contextlib.suppress(KeyboardInterrupt):
                self._follow(None)
