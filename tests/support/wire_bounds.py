"""What each wire dtype promises: how many bytes it takes, and how far it is off at most."""

import math

import numpy as np


def bounds(vector: np.ndarray) -> dict[str, np.ndarray]:
    """The largest error each dtype may make, number by number, in float64.

    Half a step of the format, and a thousandth more for the rounding of scales in float32.
    """
    exact = np.abs(vector.astype(np.float64))
    largest = exact.max(initial=0.0)
    # Of the 256 numbers that share a scale.
    in_block = np.array([exact[i - i % 256 : i - i % 256 + 256].max() for i in range(len(exact))])
    return {
        "float32": np.zeros(len(exact)),
        "bfloat16": 2.0**-8 * exact,
        # Relative to each number, until it is too small beside the largest one.
        "float16": 1.001 * (2.0**-11 * exact + 2.0**-25 * largest),
        "int8": 1.001 * in_block / 254,
    }


SIZES = {
    "float32": lambda n: 4 * n,
    "bfloat16": lambda n: 2 * n,
    "float16": lambda n: 4 + 2 * n,
    "int8": lambda n: n + 4 * math.ceil(n / 256),
}
