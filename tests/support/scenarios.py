"""What may happen to a training: the scenarios of the suite of faults and of its report."""

import contextlib
import functools
import signal
import time
from collections.abc import Callable, Sequence

from support.places import BOTH_WAYS, DROP, RESET
from support.trial import Scenario, Trial

Harm = Callable[[Trial], None]
RESTART = ("--restart",)
APE_X = ("--topology=apex", "--replay=prioritized", "--num_learners=1", "--num_actors=2")
SEED = ("--topology=seed", "--num_learners=1", "--num_actors=2")
ALL_REDUCE = ("--strategy=all_reduce", "--local_updates=1")


def killed(*names: str) -> Harm:
    """SIGKILL, at once."""
    return lambda trial: trial.signal(signal.SIGKILL, *names)


def stopped(*names: str, seconds: float = 0.0) -> Harm:
    """SIGSTOP; for so long, or for good."""

    def harm(trial: Trial) -> None:
        trial.signal(signal.SIGSTOP, *names)
        if seconds:
            time.sleep(seconds)
            trial.signal(signal.SIGCONT, *names)

    return harm


def replaced(*names: str, number: int = signal.SIGKILL) -> Harm:
    """Ended, and started again by whoever has started it."""

    def harm(trial: Trial) -> None:
        trial.signal(number, *names)
        for name in names:
            trial.gone(name)
            trial.start(name)

    return harm


def again_and_again(name: str, said: str) -> Harm:
    """SIGKILL three times, each when the run has said that it goes on with it."""

    def harm(trial: Trial) -> None:
        for _ in range(2):
            trial.signal(signal.SIGKILL, name)
            trial.until_it_says(said)
        trial.signal(signal.SIGKILL, name)

    return harm


def cut_off(name: str, seconds: float, chains: Sequence[str], *rule: str) -> Harm:
    """What a task is sent, or sends, is lost or refused for so long."""

    def harm(trial: Trial) -> None:
        with trial.harmed_by(trial.places.ruled(name, chains, *rule)):
            time.sleep(seconds)

    return harm


def cut_off_from(name: str, other: str, seconds: float) -> Harm:
    """What a task sends to another one is lost for so long; others hear it, and it hears all."""

    def harm(trial: Trial) -> None:
        rule = ("-d", trial.places.address(other), *DROP)
        with trial.harmed_by(trial.places.ruled(name, ("OUTPUT",), *rule)):
            time.sleep(seconds)

    return harm


def slowed(rate: str, seconds: float, *names: str) -> Harm:
    """They send no faster than this for so long."""

    def harm(trial: Trial) -> None:
        with contextlib.ExitStack() as stack:
            for name in names:
                stack.enter_context(trial.harmed_by(trial.places.slowed(name, rate)))
            time.sleep(seconds)

    return harm


local = Scenario
# One learner, which comes first of the workers, and two actors.
ape_x = functools.partial(Scenario, flags=APE_X, workers=3)
seed = functools.partial(Scenario, flags=SEED, workers=1)
# An exchange for each update, so that as many steps take several times as long.
all_reduce = functools.partial(Scenario, flags=ALL_REDUCE, servers=0, length=0.5)
remote = functools.partial(Scenario, is_remote=True)
apart = functools.partial(remote, is_apart=True, tested_by="test_partitions")
ON = "none is missing"
OTHERS = "other scenarios"

SCENARIOS = (
    local("nothing", lambda trial: None, tested_by=OTHERS),
    local("a worker killed", killed("worker-1"), tested_by=OTHERS),
    local(
        "a worker killed three times",
        again_and_again("worker-1", "rounds wait for worker 1 again: it pushes"),
        length=2.0,
    ),
    local("all workers killed", killed("worker-0", "worker-1")),
    local("a worker stopped for good", stopped("worker-1"), tested_by="test_stalls"),
    local("the parameter server killed", killed("ps-0"), tested_by="test_lost_servers"),
    local(
        "the parameter server killed three times",
        again_and_again("ps-0", ON),
        tested_by="test_lost_servers",
    ),
    local(
        "the first of two parameter servers killed",
        killed("ps-0"),
        servers=2,
        tested_by=OTHERS,
    ),
    local(
        "the second of two parameter servers killed",
        killed("ps-1"),
        servers=2,
        tested_by="test_lost_servers",
    ),
    local(
        "both parameter servers killed",
        killed("ps-0", "ps-1"),
        servers=2,
        tested_by="test_lost_servers",
    ),
    local("the parameter server stopped for good", stopped("ps-0"), tested_by="test_stalls"),
    local(
        "a worker and the parameter server killed",
        killed("worker-1", "ps-0"),
        loses_updates=True,
    ),
    local(
        "a worker stopped for good, --restart",
        stopped("worker-1"),
        RESTART,
        tested_by="test_stalls_at_the_start",
    ),
    local(
        "the parameter server killed, --restart",
        killed("ps-0"),
        RESTART,
        tested_by=OTHERS,
    ),
    local(
        "the parameter server stopped for good, --restart",
        stopped("ps-0"),
        RESTART,
        tested_by="test_stalls_at_the_start",
    ),
    local(
        "the coordinator killed, --restart",
        killed("coordinator"),
        RESTART,
        tested_by="test_restart",
    ),
    local("the coordinator stopped for good, --restart", stopped("coordinator"), RESTART),
    local("the coordinator stopped for 10 s", stopped("coordinator", seconds=10.0)),
    local(
        "the coordinator and a worker killed, --restart",
        killed("coordinator", "worker-1"),
        RESTART,
        loses_updates=True,
    ),
    local(
        "the coordinator and the parameter server killed, --restart",
        killed("coordinator", "ps-0"),
        RESTART,
        tested_by="test_restart",
    ),
    ape_x("Ape-X: an actor killed", killed("worker-1"), tested_by="test_lost_replay"),
    ape_x("Ape-X: the learner killed", killed("worker-0"), tested_by="test_lost_replay"),
    ape_x("Ape-X: the replay server killed", killed("replay-0"), tested_by="test_lost_replay"),
    ape_x(
        "Ape-X: the replay server killed, --replay_files",
        killed("replay-0"),
        flags=(*APE_X, "--replay_files"),
        tested_by="test_lost_replay",
    ),
    ape_x("Ape-X: the replay server stopped for good", stopped("replay-0")),
    seed("SEED: an actor killed", killed("actor-1"), tested_by="test_lost_actors"),
    seed("SEED: the learner killed", killed("worker-0"), tested_by="test_lost_actors"),
    all_reduce("all-reduce: a worker killed", killed("worker-1"), tested_by="test_lost_members"),
    all_reduce("all-reduce: a worker stopped for good", stopped("worker-1")),
    remote("a remote worker killed", replaced("worker-1"), tested_by=OTHERS),
    remote("all remote workers killed", replaced("worker-0", "worker-1"), tested_by=OTHERS),
    remote("a remote worker told to leave", replaced("worker-1", number=signal.SIGTERM)),
    remote(
        "a remote worker stopped for 30 s",
        stopped("worker-1", seconds=30.0),
        length=2.0,
        tested_by="test_stalls",
    ),
    remote("a remote parameter server killed", replaced("ps-0"), tested_by=OTHERS),
    remote(
        "a remote parameter server stopped for 30 s",
        stopped("ps-0", seconds=30.0),
        tested_by="test_stalls",
    ),
    remote(
        "a remote worker and a remote parameter server killed",
        replaced("worker-1", "ps-0"),
        loses_updates=True,
        tested_by=OTHERS,
    ),
    remote(
        "the coordinator of remote tasks killed",
        replaced("coordinator"),
        tested_by="test_lost_coordinator",
    ),
    remote("all remote tasks 25 ms away", lambda trial: None, delay=0.025, length=0.4),
    remote(
        "all remote tasks 100 ms away",
        lambda trial: None,
        delay=0.1,
        length=0.2,
        tested_by=OTHERS,
    ),
    apart("a worker cut off for 10 s", cut_off("worker-1", 10.0, BOTH_WAYS, *DROP)),
    apart("a worker cut off for 60 s", cut_off("worker-1", 60.0, BOTH_WAYS, *DROP), length=5.0),
    apart("a worker heard by nobody for 10 s", cut_off("worker-1", 10.0, ("OUTPUT",), *DROP)),
    apart("a worker refused for 10 s", cut_off("worker-1", 10.0, ("INPUT",), *RESET)),
    apart(
        "a worker not heard by the parameter server for 30 s",
        cut_off_from("worker-1", "ps-0", 30.0),
        length=3.0,
    ),
    apart("the parameter server cut off for 10 s", cut_off("ps-0", 10.0, BOTH_WAYS, *DROP)),
    apart("the parameter server cut off for 60 s", cut_off("ps-0", 60.0, BOTH_WAYS, *DROP)),
    apart(
        "the parameter server heard by nobody for 10 s", cut_off("ps-0", 10.0, ("OUTPUT",), *DROP)
    ),
    apart("the parameter server refused for 10 s", cut_off("ps-0", 10.0, ("INPUT",), *RESET)),
    apart("the coordinator cut off for 10 s", cut_off("chief-0", 10.0, BOTH_WAYS, *DROP)),
    apart("the coordinator cut off for 60 s", cut_off("chief-0", 60.0, BOTH_WAYS, *DROP)),
    apart("the coordinator refused for 10 s", cut_off("chief-0", 10.0, ("INPUT",), *RESET)),
    apart("10 Mbit/s for 10 s", slowed("10mbit", 10.0, "ps-0", "worker-0", "worker-1")),
)
