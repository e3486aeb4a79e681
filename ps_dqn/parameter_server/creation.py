"""What a parameter server is told to begin with, as the coordinator sends it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.config import Config
from ps_dqn.parameter_server import resets
from ps_dqn.state import Segment


class Sizes(NamedTuple):
    """Of a run, and where in it a server is."""

    num_ps: int
    num_workers: int
    num_parameters: int  # of all servers
    start: int  # of this one's
    num_moments: int  # followed of the environments


class Creation(NamedTuple):
    """The inputs of a server's `create`."""

    session: Any  # of the run, int64 []
    config: Any  # the `Config` as JSON, string []
    sizes: Any  # `Sizes`, int64 [fields]
    initial: Any  # its part of the vector, float32 [P]
    segments: Any  # what resets begin anew, int64 [n, fields of Segment]
    drawn: Any  # and all that these variables begin with, float32

    @classmethod
    def of(
        cls,
        session: int,
        config: Config,
        sizes: Sizes,
        initial: np.ndarray,
        segments: Sequence[Segment],
        stop: int,
    ) -> "Creation":
        """For the server of a part of the vector.

        Args:
            session: of the run.
            config: the experiment.
            sizes: with the beginning of the part.
            initial: the whole vector.
            segments: of the whole vector.
            stop: where the part ends.
        """
        part = initial[sizes.start : stop].astype(np.float32)
        wanted = segments if config.resets.reset_period else ()
        begun_anew = resets.cut(wanted, initial, (sizes.start, stop))
        numbers = np.array(sizes, np.int64)
        return cls(np.int64(session), config.to_json(), numbers, part, *begun_anew)
