"""What a parameter server is told to begin with, as the coordinator sends it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ps_dqn.config import Config
from ps_dqn.parameter_server import pruning, resets
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
    layers: Any  # how sparse they are to be, float64 [n, fields of `pruning.Layer`]
    run_id: Any  # the same for every session of a run, string []

    @classmethod
    def of(
        cls,
        session: int,
        config: Config,
        sizes: Sizes,
        initial: np.ndarray,
        segments: Sequence[Segment],
        stop: int,
        run_id: str,
    ) -> "Creation":
        """For the server of a part of the vector.

        Args:
            session: of the run.
            config: the experiment.
            sizes: with the beginning of the part.
            initial: the whole vector.
            segments: of the whole vector.
            stop: where the part ends.
            run_id: the same for every session of the run.
        """
        part = initial[sizes.start : stop].astype(np.float32)
        wanted = segments if config.resets.reset_period else ()
        bounds = sizes.start, stop
        which, drawn = resets.cut(wanted, initial, bounds)
        layers = pruning.layers(config, segments, bounds)
        whose = np.int64(session), config.to_json(), np.array(sizes, np.int64)
        return cls(*whose, part, which, drawn, layers, run_id)
