"""Named as --env_module, makes worker 3 push garbage: large numbers that are all finite.

CartPole itself is Gymnasium's. Every task imports this module before it makes environments. Tests
must not: whatever pushes in their process as worker 3 would push garbage from then on.
"""

import numpy as np

from ps_dqn.worker.pushes.parameter_client import ParameterClient

WORKER = 3
_generator = np.random.default_rng(0)
_pack = ParameterClient.pack


def _pack_garbage(self, vector, *arguments, **options):
    if self._worker == WORKER:
        vector = (100 * _generator.normal(size=vector.shape)).astype(np.float32)
    return _pack(self, vector, *arguments, **options)


ParameterClient.pack = _pack_garbage
