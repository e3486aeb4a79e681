"""A worker's side of a new connection: it stays as it is, and has kept what servers have lost."""

from collections.abc import Sequence

import numpy as np

from ps_dqn.wire import messages
from ps_dqn.wire.messages import Verdict
from ps_dqn.worker.pushes.parameter_client import ParameterClient
from ps_dqn.worker.tally import Tally


class Recovery:
    """What the coordinator asks a worker of when it has connected anew."""

    ASKED = ("kept", "pushed_again")

    def __init__(self, client: ParameterClient, tally: Tally, log_id: int):
        """Of a worker that pushes into the log of this name.

        Args:
            client: of the worker; keeps its pushes.
            tally: of the worker.
            log_id: of its servers' log.
        """
        self._client, self._tally, self._log_id = client, tally, log_id
        self._has_gone_on = False

    def go_on(self, session: int, log_id: int) -> np.ndarray:
        """The coordinator has connected anew: environments, replay and optimizer stay.

        Args:
            session: of the run, from now on.
            log_id: of its servers' log; what was pushed counts no more where it is another one.

        Returns:
            The pushes that are kept; see `KeptPushes.table`.
        """
        self._has_gone_on = True
        self._client.go_on(session, has_same_log=log_id == self._log_id)
        self._log_id = log_id
        return self._client.kept.table()

    @property
    def goes_on(self) -> bool:
        """Whether `has_gone_on` will say so."""
        return self._has_gone_on

    def has_gone_on(self) -> bool:
        """Whether what is next is the first closure since."""
        was, self._has_gone_on = self._has_gone_on, False
        return was

    def kept(self, index: np.ndarray, most_bytes: np.ndarray) -> Sequence[np.ndarray]:
        """Pushes that are kept, from this one on; see `KeptPushes.several`."""
        return self._client.kept.several(int(index), int(most_bytes))

    def pushed_again(self, index: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Takes another `Verdict`, int64 [fields], of such a push than had come; returns a mark."""
        verdict = messages.unpack(Verdict, numbers)
        if self._client.kept[int(index)].number == messages.UNDECIDED:
            self._tally.judged(verdict)
        self._client.pushed_again(int(index), verdict)
        return np.array(1, np.int32)
