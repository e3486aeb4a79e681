"""What closures and the Python of their worker exchange: one record for each call.

A closure calls a method of the worker's host (`bridge.call`): the method gets the fields of one
record as NumPy arrays and returns another. A closure's tensors must have static shapes and dtypes,
so what a method returns has its specs beside its fields.

| method         | gets                      | returns                               |
|----------------|---------------------------|---------------------------------------|
| begin          | `Begin`                   | `Begun`                               |
| pulled         | a reply of each server    | `Pulled`                              |
| plan           | its status                | `Plan`                                |
| step           | `Acted`                   | `Acting`                              |
| sample         |                           | `Sampled`                             |
| prepare        |                           | a mark                                |
| weigh          | rows, draws, probabilities| `Weighed`                             |
| hand_over      |                           | a parcel for each replay server       |
| handed_over    | their answers             | a mark: 1 if there is a push          |
| pack           | `Learned`                 | `Packed`                              |
| pushed         | the `Verdict`             | requests of the next pull             |
| report         |                           | `Reported`                            |
| rejoin         | `Rejoin`                  | the pushes it keeps                   |
| kept           | the index of such a push, | its part for each server, and of      |
|                | how many bytes            | those behind it                       |
| pushed_again   | that index, the `Verdict` | a mark                                |
| evaluate_begin | `Rejoin`, seed, episodes  | its number and `Playing`              |
| evaluate_step  | `Acted`                   | `Playing`                             |
| evaluate_end   |                           | `Played`                              |

`steps` and `evaluate_steps` get parameters and how NumPy computes actions of them, and are as many
of these as are due: see `in_numpy`. Each call of a closure after its `begin` has the number that
this returned first: see `fence`. The coordinator calls `rejoin`, `kept` and `pushed_again`.
`pack`, `pushed` and `pulled` are communication: they may run while the others go on, in the order
of what they take from each other; `plan` and `report` only after them. A call after a failure
returns zeros, so marks are 1 where all went well.

Shapes: E environments, M minibatches of B items each, P parameters, S optimizer slots.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ps_dqn import moments
from ps_dqn.environments import EnvironmentSpec
from ps_dqn.replay.batch import Batch
from ps_dqn.telemetry.report import Report
from ps_dqn.wire import bridge
from ps_dqn.wire.messages import PullRequest, PushHeader


@dataclasses.dataclass(frozen=True)
class Spec:
    """An array that is not there yet."""

    shape: tuple[int | None, ...]  # None: a size that varies
    dtype: Any  # of NumPy


MARK = Spec((), np.int32)
NUMBER = Spec((), np.int64)


class Sizes(NamedTuple):
    """What a worker needs to know of a run beside its configuration."""

    num_workers: int
    num_ps: int
    num_parameters: int  # P
    num_slots: int  # S, of the local optimizer
    num_moments: int  # numbers of the environment that are followed: see `moments`
    num_replay_servers: int = 0

    @property
    def slots_shape(self) -> tuple[int, int]:
        """Of the local optimizer's slots: [S, P]."""
        return self.num_slots, self.num_parameters


class Tickets(NamedTuple):
    """Which pushes a closure makes."""

    first: int  # the ticket of its first push; the next ones follow it
    oldest: int  # the first ticket of the oldest closure that has not ended
    pushes: int  # how many
    safe: int = 0  # pushes of lower numbers are in a snapshot of the servers
    others: int = 0  # workers that had worked when it was given out, where the run has several


class Begin(NamedTuple):
    """A closure begins to run."""

    session: Any  # one number for each session of a run, int64 []
    log_id: Any  # of the log that its servers write, which sessions may share, int64 []
    run_id: Any  # the same for every session of a run, string []
    config: Any  # the `Config` as JSON, string []
    sizes: Any  # `Sizes`, int64 [5]
    loss_scale: Any  # that a worker begins with which has none, int64 []
    tickets: Any  # `Tickets`, int64 [5]


class Begun(NamedTuple):
    """A closure has begun."""

    closure: Any  # its number on this worker, int64 []
    requests: Any  # a `PullRequest` for each parameter server, int64 [num_ps, fields]

    @classmethod
    def specs(cls, num_ps: int) -> "Begun":
        """Of so many parameter servers."""
        return cls(closure=NUMBER, requests=requests(num_ps))


class Rejoin(NamedTuple):
    """The coordinator connects anew, to servers that go on with a log or begin one."""

    session: Any  # as in `Begin`, like the others
    log_id: Any
    run_id: Any
    config: Any
    sizes: Any
    loss_scale: Any


def requests(num_ps: int) -> Spec:
    """A `PullRequest` for each parameter server, int64 [num_ps, fields].

    Of a static shape, so that zeros in its place, after an error, have it too.
    """
    return Spec((num_ps, len(PullRequest._fields)), np.int64)


class Acting(NamedTuple):
    """What the Q-network is to act on next."""

    observations: Any  # [E, …]
    state: Any  # recurrent, float32 [E, numbers of state]
    masks: Any  # of the actions, bool [E, A]; [E, 0] without
    step: Any  # how many were made for this push, int32 []
    should_act: Any  # int32 []: 1 if another step is to be made now

    @classmethod
    def specs(cls, num_envs: int, environment: EnvironmentSpec, state_size: int) -> "Acting":
        """Of so many environments."""
        shape = (num_envs, *environment.observation_shape)
        return cls(
            observations=Spec(shape, environment.observation_dtype),
            state=Spec((num_envs, state_size), np.float32),
            masks=Spec((num_envs, environment.mask_size), np.bool_),
            step=Spec((), np.int32),
            should_act=MARK,
        )


class Pulled(NamedTuple):
    """What a pull brings."""

    status: Any  # `Status`, int32 []; all but READY come without parameters
    online: Any  # float32 [P]
    target: Any  # float32 [P]
    mask: Any  # 1 where they are kept, 0 where they are zero, float32 [P]; [0] without a mask

    @classmethod
    def specs(cls, num_parameters: int, mask_size: int) -> "Pulled":
        """Of a network with so many, and of a mask with so many numbers."""
        vector = Spec((num_parameters,), np.float32)
        return cls(MARK, vector, vector, Spec((mask_size,), np.float32))


class Plan(NamedTuple):
    """A worker's own part of the local updates, from one pull to the next."""

    slots: Any  # of the local optimizer, float32 [S, P]
    steps: Any  # that the local optimizer has made, float32 []
    learning_rate: Any  # float32 []
    epsilon: Any  # probability of a random action, the mean of its environments, float32 []
    seed: Any  # of acting and learning, int32 [2]
    loss_scale: Any  # state of it, float32 [numbers]: see `loss_scaling`
    acting: Acting

    @classmethod
    def specs(cls, sizes: Sizes, acting: Any, loss_scale: int = 0) -> "Plan":
        """Of a run of these sizes, what it acts on, if it acts, and a loss scale's numbers."""
        number = Spec((), np.float32)
        return cls(
            slots=Spec(sizes.slots_shape, np.float32),
            steps=number,
            learning_rate=number,
            epsilon=number,
            seed=Spec((2,), np.int32),
            loss_scale=Spec((loss_scale,), np.float32),
            acting=acting,
        )


class Acted(NamedTuple):
    """What the network makes of `Acting`."""

    actions: Any  # the best ones, or a policy's choice, int32 [E]
    state: Any  # after them, float32 [E, numbers of state]
    log_probs: Any = np.zeros((0, 0), np.float32)  # of a policy's choice, float32 [E, 1]; else none
    # Of all actions, for first priorities, float32 [E, A]; else none.
    values: Any = np.zeros((0, 0), np.float32)


class Sampled(NamedTuple):
    """The minibatches of all local updates."""

    should_push: Any  # int32 []: 1, or 0 where the closure is to end without learning from them
    batch: Batch
    acting: Acting  # to go on with while learning

    @classmethod
    def specs(cls, batch: Batch, acting: Acting) -> "Sampled":
        """Of batches like this one, and what is acted on."""
        return cls(should_push=MARK, batch=batch, acting=acting)


class Packed(NamedTuple):
    """A push."""

    header: Any  # `PushHeader` and what the worker has seen (see `moments`), int64
    messages: Any  # the part of the vector of each server, uint8

    @classmethod
    def specs(cls, sizes: Sizes) -> "Packed":
        """Of a run of these sizes."""
        numbers = len(PushHeader._fields) + moments.num_numbers(sizes.num_moments)
        return cls(
            header=Spec((numbers,), np.int64), messages=[Spec((None,), np.uint8)] * sizes.num_ps
        )


class Reported(NamedTuple):
    """The end of a closure."""

    ok: Any  # int32 []: 1
    report: Any  # `Report`, float64 [fields]

    @classmethod
    def specs(cls) -> "Reported":
        """Of every run."""
        return cls(ok=MARK, report=Spec((len(Report._fields),), np.float64))

    @classmethod
    def nothing(cls) -> "Reported":
        """For a closure that nobody waits for."""
        return cls(np.int32(1), np.zeros(len(Report._fields)))


class Caller(NamedTuple):
    """A closure that has begun."""

    worker: Any  # where it runs, int []
    closure: Any  # its number there, int64 []

    def call(self, method: str, inputs: Sequence[Any], outputs: Any, in_order: bool = True) -> Any:
        """See `bridge.call`."""
        return bridge.call(method, self.worker, [self.closure, *inputs], outputs, in_order)


class Playing(NamedTuple):
    """What the Q-network is to act on next, in an evaluation."""

    observations: Any  # [E, …]
    state: Any  # recurrent, float32 [E, numbers of state]
    masks: Any  # of the actions, bool [E, A]; [E, 0] without
    episodes: Any  # that are not over, int32 []

    @classmethod
    def specs(cls, acting: Acting) -> "Playing":
        """Of what is acted on in such environments."""
        shown = acting.observations, acting.state, acting.masks
        return cls(*shown, episodes=MARK)


class Played(NamedTuple):
    """The end of an evaluation."""

    ok: Any  # int32 []: 1
    returns: Any  # of the episodes, float64 [E]

    @classmethod
    def specs(cls, episodes: int) -> "Played":
        """Of so many episodes."""
        return cls(ok=MARK, returns=Spec((episodes,), np.float64))

    @classmethod
    def nothing(cls) -> "Played":
        """For a closure that nobody waits for."""
        return cls(np.int32(1), np.zeros(0))
