"""Where a network's variables are in its flat vector of parameters, for those who hold no network.

What a variable begins with is drawn independently of the rest of it, number by number, or the same
for all of it (biases, normalisations, deviations of noise). So its values in another order are as
likely a beginning as they are, and nobody needs its initializer to draw it anew. This does not hold
of an LSTM, whose recurrent kernel is orthogonal and whose bias differs from gate to gate, nor, for
all that is known, of a user's own network.
"""

import math
from collections.abc import Sequence

import keras

from ps_dqn.state import Segment


def of(variables: Sequence[keras.Variable], encoder: Sequence[keras.layers.Layer]) -> list[Segment]:
    """The segments of those variables that gradients change, in order.

    Args:
        variables: all of the vector.
        encoder: the layers before the head.
    """
    before_head = {id(variable) for layer in encoder for variable in layer.trainable_variables}
    found, stop = [], 0
    for variable in variables:
        start, stop = stop, stop + math.prod(variable.shape)
        if variable.trainable:
            axes = sum(variable.shape) if len(variable.shape) > 1 else 0
            found.append(Segment(start, stop, id(variable) not in before_head, axes))
    return found


def kernels(variables: Sequence[keras.Variable]) -> dict[str, slice]:
    """Where the weights of layers are among all of the vector, by layer and variable."""
    found, stop = {}, 0
    for variable in variables:
        start, stop = stop, stop + math.prod(variable.shape)
        if variable.trainable and len(variable.shape) > 1:
            found[variable.path] = slice(start, stop)
    return found
