"""An actor of whose every message a test decides when it is sent.

It observes one number, which its test says, and the learner may choose one of two actions.
"""

import socket

import numpy as np

from ps_dqn.actor import messages
from ps_dqn.actor.channel import Channel
from ps_dqn.actor.messages import Hello, Stepped, Welcome
from ps_dqn.config.faults import ENV_FAILURES
from ps_dqn.environments import EnvironmentSpec

SPEC = EnvironmentSpec((1,), np.dtype(np.float32), 2, None)
# A learner that does not come fails the test (seconds).
SECONDS = 60.0


class ScriptedActor:
    """Serves one learner after the other."""

    def __init__(self, num_envs: int):
        """Listens at a free port."""
        self._envs = num_envs
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(SECONDS)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._channel: Channel | None = None

    def join(self, observation: float, answer: Welcome | bytes | None = None) -> Hello:
        """Waits for a learner and shows it an observation; what it has said.

        Args:
            observation: of all environments.
            answer: sent instead, with nothing to be acted on.
        """
        self.leave()
        self._channel = Channel(self._listener.accept()[0])
        self._channel.wait_at_most(SECONDS)
        hello: Hello = messages.decode(Hello, self._channel.receive())
        assert hello.num_envs == self._envs
        said = Welcome("", [1], "float32", 2, 0) if answer is None else answer
        self._channel.send(said if isinstance(said, bytes) else messages.encode(said))
        if answer is None:
            self.show(observation)
        return hello

    def hang_up(self) -> None:
        """Waits for a learner, and leaves it without an answer."""
        Channel(self._listener.accept()[0]).close()

    def show(
        self,
        observation: float,
        reward: float = 0.0,
        ends: bool = False,
        last: float | None = None,
        failures: int = 0,
    ) -> None:
        """Says what came of actions, of all environments alike; `last` of episodes left already."""
        assert self._channel is not None
        whole, nothing = np.ones(self._envs, np.bool_), np.zeros(self._envs, np.bool_)
        finals = np.arange(self._envs if last is not None else 0)
        counts = np.zeros(len(ENV_FAILURES), np.int64)
        counts[0] = failures
        self._channel.send(
            messages.pack(
                Stepped(
                    0.25,
                    counts,
                    np.full((self._envs, 1), observation, np.float32),
                    np.ones((self._envs, 0), np.bool_),
                    np.full(self._envs, reward),
                    whole if ends else nothing,
                    nothing,
                    whole,
                    nothing,
                    finals,
                    np.full((len(finals), 1), last or 0.0, np.float32),
                    np.ones((len(finals), 0), np.bool_),
                )
            )
        )

    def actions(self) -> list[int]:
        """Waits for what it is to do."""
        assert self._channel is not None
        return self._channel.receive().view(np.int32).tolist()

    def leave(self) -> None:
        """The connection ends, as where its process dies."""
        if self._channel is not None:
            self._channel.close()

    def close(self) -> None:
        """Is gone for good."""
        self.leave()
        self._listener.close()
