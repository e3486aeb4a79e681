"""How sparse each layer is to be, so that all of them together have the sparsity that is wanted."""

from collections.abc import Sequence

import numpy as np


def uniform(sizes: Sequence[int], sparsity: float) -> np.ndarray:
    """The same share of every layer, float64 [layers]."""
    return np.full(len(sizes), sparsity)


def erk(sizes: Sequence[int], axes: Sequence[int], sparsity: float) -> np.ndarray:
    """Erdős–Rényi-Kernel: Evci et al. 2020, arXiv:1911.11134, section 3.

    A layer keeps a share of its weights in proportion to the sum of its kernel's axes divided by
    their product. One that would keep more than all keeps all, and the others share what is left.

    Args:
        sizes: weights of each layer.
        axes: the sum of the axes of its kernel.
        sparsity: of all together, from 0 to 1.

    Returns:
        Of each layer, float64 [layers].
    """
    numbers, sums = np.array(sizes, float), np.array(axes, float)
    wanted = (1.0 - sparsity) * numbers.sum()
    is_dense = np.zeros(len(numbers), bool)
    while True:
        left = wanted - numbers[is_dense].sum()
        scale = left / sums[~is_dense].sum()
        densities = np.where(is_dense, 1.0, scale * sums / numbers)
        beyond = (densities > 1.0) & ~is_dense
        if not beyond.any():
            return 1.0 - densities
        is_dense |= beyond
