"""A learner's environments, which its actors have: acted in as they come, together where they can.

It answers the actors that wait, and takes what they show next as one step of their environments. A
batch is closed when all are there that are expected, or some time after the first: whoever is late
is in the next one. So a step is of some of the environments; see `environments.Step`.

Shapes: E environments of the learner, e of these, A truth values of a mask.
"""

import queue
import time
from collections.abc import Callable, Sequence

import numpy as np

from ps_dqn.actor.channel import Channel
from ps_dqn.actor.messages import Hello, Layout, Stepped
from ps_dqn.config.faults import ENV_FAILURES
from ps_dqn.environments import EnvironmentSpec, Step
from ps_dqn.errors import UsageError
from ps_dqn.worker.playing.links import Heard, Joined, Link, Lost, Moved, Refused, rows_of

# A learner whose actors are all gone gives its closure back after this long (seconds), so that the
# coordinator hears of it and can go on.
PATIENCE = 2.0


class RemoteEnvironments:
    """E environments of several actors; one thread at a time may use them."""

    def __init__(
        self, spec: EnvironmentSpec, num_envs: int, addresses: Sequence[str], timeout: float
    ):
        """Connects to nobody yet.

        Args:
            spec: of one environment.
            num_envs: E.
            addresses: of the actors, host:port; each has as many of the environments, within one.
            timeout: how long the first of a batch waits for the others (seconds).
        """
        self.spec, self.num_envs, self.num_actions = spec, num_envs, spec.num_actions
        self._addresses, self._timeout = addresses, timeout
        self._rows = rows_of(num_envs, len(addresses))
        self._inbox: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self._links: list[Link] = []
        self._channels: dict[int, Channel] = {}  # of the actors that are there
        self._known: set[int] = set()  # actors that were there
        # The run has not trained yet, so what an actor refuses is a person's to mend.
        self.is_new = True
        self._waiting: set[int] = set()  # those of them that wait for actions
        self._batch_began = 0.0  # when the first of those was heard
        shape, masks = (num_envs, *spec.observation_shape), (num_envs, spec.mask_size)
        self._observations = np.zeros(shape, spec.observation_dtype)
        self._masks = np.ones(masks, np.bool_)
        self._actions = np.zeros(num_envs, np.int64)
        self._has_acted = np.zeros(num_envs, np.bool_)  # since its episode's rows began
        self.failures = dict.fromkeys(ENV_FAILURES, 0)  # so far, by kind
        self.waited: list[float] = []  # how long actors did for actions; whoever reads it clears it

    def start(self, hello: Callable[[int, int, int], Hello]) -> None:
        """Connects to all of them, in the background.

        Args:
            hello: what an actor is told, by its number here, how many environments it has and how
                often it was there before.
        """
        for actor, address in enumerate(self._addresses):
            rows = self._rows[actor]
            shape, dtype = self.spec.observation_shape, np.dtype(self.spec.observation_dtype)
            layout = Layout(len(rows), shape, dtype, self.spec.mask_size)

            def say(times: int, actor: int = actor, envs: int = len(rows)) -> Hello:
                return hello(actor, envs, times)

            whose = actor, address, layout, self.num_actions
            self._links.append(Link(*whose, say, self._inbox))

    @property
    def observations(self) -> np.ndarray:
        """To act on, [E, …]; of those that do not wait, what they were acted on last."""
        return self._observations.copy()

    @property
    def masks(self) -> np.ndarray:
        """Of these, bool [E, A]."""
        return self._masks.copy()

    @property
    def waiting(self) -> np.ndarray:
        """The environments of actors that wait for actions, int [e]."""
        found = [self._rows[actor] for actor in sorted(self._waiting)]
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    @property
    def num_connected(self) -> int:
        """Actors that are there."""
        return len(self._channels)

    @property
    def absent(self) -> int:
        """The first of the actors that is not there; -1 where all are."""
        return next((i for i in range(len(self._addresses)) if i not in self._channels), -1)

    def act(self, actions: np.ndarray) -> None:
        """Answers the actors that wait; of all actions, int [E], theirs are taken."""
        for actor in sorted(self._waiting):
            rows = self._rows[actor]
            self._actions[rows] = actions[rows]
            self._has_acted[rows] = True
            try:
                self._channels[actor].send(actions[rows].astype(np.int32).tobytes())
            except OSError:
                continue  # its link hears of that too
        self._waiting.clear()

    def gather(self) -> list[Step]:
        """Waits for the next batch; what has become of actions, in order.

        Nothing where nobody was heard of for `PATIENCE`.

        Raises:
            UsageError: an actor of a new run cannot do what it is for, and never could.
        """
        steps: list[Step] = []
        moved: list[Moved] = []
        patience = time.perf_counter() + PATIENCE
        while (limit := self._limit(patience)) is not None:
            left = limit - time.perf_counter()
            try:
                heard = self._inbox.get(timeout=left) if left > 0 else self._inbox.get_nowait()
            except queue.Empty:
                break
            # Later on it is left to those who look after it; its link tells the log.
            if isinstance(heard, Refused) and self.is_new and heard.actor not in self._known:
                raise UsageError(heard.text)
            if isinstance(heard, Moved):
                moved.append(heard)
            elif isinstance(heard, Joined):
                self._join(heard)
            elif isinstance(heard, Lost):
                steps += self._combined(moved)
                moved = []
                steps += self._lose(heard.actor)
            if isinstance(heard, Moved | Joined):
                if not self._waiting:
                    self._batch_began = time.perf_counter()
                self._waiting.add(heard.actor)
        return [*steps, *self._combined(moved)]

    def close(self) -> None:
        """Lets go of the actors."""
        for link in self._links:
            link.close()

    def _limit(self, patience: float) -> float | None:
        """Until when to wait for the next actor; None: all are there."""
        if not self._waiting:
            return patience
        if self._channels.keys() <= self._waiting and self._inbox.empty():
            return None
        return self._batch_began + self._timeout

    def _join(self, joined: Joined) -> None:
        rows = self._rows[joined.actor]
        self._channels[joined.actor] = joined.channel
        self._known.add(joined.actor)
        self._observations[rows] = joined.shown.observations
        self._masks[rows] = joined.shown.masks

    def _lose(self, actor: int) -> list[Step]:
        """An actor's episodes end where it was last seen: as if time were up, then."""
        del self._channels[actor]
        self._waiting.discard(actor)
        rows = self._rows[actor]
        if not self._has_acted[rows].all():
            return []  # it was never acted in
        self._has_acted[rows] = False
        nothing = np.zeros(len(rows), np.bool_)
        shown, masks = self._observations[rows], self._masks[rows]
        return [
            Step(
                observations=shown,
                actions=self._actions[rows],
                rewards=np.zeros(len(rows)),
                terminated=nothing,
                truncated=nothing,
                is_transition=nothing,
                next_observations=shown,
                final_envs=np.zeros(0, np.int64),
                final_observations=shown[:0],
                failed_envs=rows,
                masks=masks,
                next_masks=masks,
                final_masks=masks[:0],
                envs=rows,
            )
        ]

    def _combined(self, moved: Sequence[Moved]) -> list[Step]:
        """One step of all whose actors have moved, each once; takes what is to be acted on."""
        if not moved:
            return []
        moved = sorted(moved, key=lambda each: each.actor)
        stepped = [each.stepped for each in moved]
        of = [self._rows[each.actor] for each in moved]
        rows = np.concatenate(of)

        def all_of(name: str) -> np.ndarray:
            return np.concatenate([getattr(each, name) for each in stepped])

        after, masks = all_of("observations"), all_of("masks")
        step = Step(
            observations=self._observations[rows],
            actions=self._actions[rows],
            rewards=all_of("rewards"),
            terminated=all_of("terminated"),
            truncated=all_of("truncated"),
            is_transition=all_of("is_transition"),
            next_observations=after,
            final_envs=np.concatenate([r[s.final_envs] for r, s in zip(of, stepped, strict=True)]),
            final_observations=all_of("final_observations"),
            failed_envs=rows[all_of("failed")],
            masks=self._masks[rows],
            next_masks=masks,
            final_masks=all_of("final_masks"),
            envs=rows,
        )
        self._observations[rows], self._masks[rows] = after, masks
        self._note(stepped)
        return [step]

    def _note(self, stepped: Sequence[Stepped]) -> None:
        for each in stepped:
            self.waited.append(each.waited)
            for kind, count in zip(ENV_FAILURES, each.failures, strict=True):
                self.failures[kind] += int(count)
