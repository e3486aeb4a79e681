"""What a parameter server holds: `tf.Variable`s of its own process, changed in one go.

A step with momentum and average passes about ten times over the memory when it is made operation by
operation, so for large networks it is one function that XLA compiles: rule, average and, where it
is due, the target. Small ones are quicker without: a call of the compiled function takes about a
millisecond where others have used the cores in between, a step of 20,000 parameters in NumPy a
tenth of that, and XLA takes 90 MB. There the variables' memory is worked on in place, by the same
rule.

All of a step is made inside one bridge call, under the shard's lock, so a worker's death cannot cut
it in two. That is why these are not variables of `strategy.scope()`: closures would change those by
a chain of remote operations, which can be cut between any two.

Shapes: P parameters of the shard.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from ps_dqn.config import Config
from ps_dqn.parameter_server.aggregation import Combined
from ps_dqn.parameter_server.rule import Numbers, Rule
from ps_dqn.parameter_server.target import TargetRule
from ps_dqn.run import compile_cache
from ps_dqn.state import Counters, State
from ps_dqn.wire import encoding

# Networks of fewer parameters are changed by NumPy: 240,000 take 1.1 ms and 1.3 compiled, 480,000
# take 4.4 and 1.8 ms.
SMALLEST_COMPILED = 300_000


def make(config: Config, initial: np.ndarray, num_parameters: int) -> "Vectors":
    """The vectors of a shard.

    Args:
        config: says how pushes are applied and how the target follows.
        initial: the first parameters of this shard, float32 [P].
        num_parameters: of all shards: they decide alike, so that their number changes no bit.
    """
    kind = CompiledVectors if num_parameters >= SMALLEST_COMPILED else Vectors
    return kind(config, initial)


class Vectors:
    """Online, target and average parameters of a shard and its optimizer's slots."""

    def __init__(self, config: Config, initial: np.ndarray):
        """Makes the variables; `initial` is float32 [P]."""
        self._rule, self._target_rule = Rule(config), TargetRule(config)
        self._size = len(initial)
        self._slot_names = [f"slot_{i}" for i in range(self._rule.num_slots)]
        zeros = np.zeros(self._size, np.float32)
        # The variables' memory, as NumPy sees it.
        self._arrays = {
            **{name: _aligned(initial) for name in ("online", "target", "average")},
            **{name: _aligned(zeros) for name in self._slot_names},
        }
        with tf.init_scope(), tf.device("/CPU:0"):
            self._variables = {
                name: tf.Variable(_tensor(array), trainable=False, name=name)
                for name, array in self._arrays.items()
            }
        self._frozen = self._arrays["average"].copy()

    @property
    def size(self) -> int:
        """P."""
        return self._size

    def step(self, combined: Combined, step: int, copies_target: bool) -> None:
        """Makes one version.

        Args:
            combined: the pushes that make it.
            step: how many versions this one makes since the slots began, counted from 1.
            copies_target: whether the target becomes the online parameters afterwards.
        """
        arrays, numbers = self._arrays, self._numbers(combined, step)
        slots = [arrays[name] for name in self._slot_names]
        online, average, kept = self._rule.apply(
            arrays["online"], arrays["average"], slots, combined.vector, numbers
        )
        for array, new in zip([arrays["online"], arrays["average"], *slots],
                              [online, average, *kept], strict=True):  # fmt: skip
            array[:] = new
        if copies_target:
            arrays["target"][:] = online
        elif self._target_rule.is_soft:
            share = np.float32(numbers.target_share)
            arrays["target"] += share * (online - arrays["target"])

    def put(self, values: np.ndarray) -> None:
        """Sets the first of the online, target and averaged parameters, float32 [n]."""
        for name in ("online", "target", "average"):
            self._arrays[name][: len(values)] = values

    def begin_anew(self, renewed: Callable[[np.ndarray], np.ndarray]) -> None:
        """Makes the parameters what `renewed` makes of them, float32 [P], and slots zero."""
        changed = [renewed(self._read(name)) for name in ("online", "target", "average")]
        zeros = np.zeros(self._size, np.float32)
        self._write(*changed, *[zeros for _ in self._slot_names])

    def keep(self, kept: np.ndarray) -> None:
        """Makes zero what is not kept of the parameters and slots; bool [P]."""
        self._write(*[np.where(kept, self._read(name), 0) for name in self._variables])

    def _numbers(self, combined: Combined, step: int) -> Numbers:
        worth = combined.sequential_updates
        return Numbers(
            combined.weight,
            combined.step_size,
            combined.momentum,
            self._rule.average_step(worth),
            self._target_rule.share(worth),
            float(step),
        )

    def online(self) -> np.ndarray:
        """The parameters now, float32 [P]; not to be written to, or kept until the next step."""
        return self._read("online")

    def target(self) -> np.ndarray:
        """The target now, likewise."""
        return self._read("target")

    def freeze(self) -> None:
        """Keeps the average of this moment for an evaluation."""
        self._frozen = self._read("average").copy()

    def frozen(self) -> np.ndarray:
        """The average when it was frozen last, float32 [P]."""
        return self._frozen

    def state(self, counters: Counters) -> State:
        """A copy of everything, with the counters that belong to it."""
        online, target, average = (
            self._read(name).copy() for name in ("online", "target", "average")
        )
        slots = tuple(self._read(name).copy() for name in self._slot_names)
        return State(online, target, average, slots, counters, slots_of=self._rule.slots_of)

    def restore(self, state: State) -> None:
        """Puts a state back; its average counts as frozen."""
        self._write(state.online, state.target, state.average, *state.slots)
        self._frozen = state.average.copy()

    def _read(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def _write(self, *vectors: np.ndarray) -> None:
        """Sets online, target, average and slots, float32 [P] each."""
        for array, vector in zip(self._arrays.values(), vectors, strict=True):
            array[:] = vector


class CompiledVectors(Vectors):
    """The same, changed by functions that XLA compiles, one for each kind of step."""

    def __init__(self, config: Config, initial: np.ndarray):
        """Makes the variables and begins to compile."""
        super().__init__(config, initial)
        self._arrays = {}  # what was read since the last step: XLA gives variables other memory
        self._given = encoding.aligned(4 * len(Numbers._fields)).view(np.float32)
        self._steps: dict[bool, Any] = {}
        # Beside the workers' own start-up, which takes longer.
        self._compiling = threading.Thread(target=self._compile, daemon=True)
        self._compiling.start()

    def step(self, combined: Combined, step: int, copies_target: bool) -> None:
        """Makes one version, in place where nobody holds what was read."""
        self._compiling.join()
        self._arrays.clear()
        self._given[:] = self._numbers(combined, step)
        self._steps[copies_target](_tensor(combined.vector), _tensor(self._given))
        self._read("online")  # for the next pull, which would have to set TensorFlow up again

    def put(self, values: np.ndarray) -> None:
        """Sets the first of the online, target and averaged parameters, float32 [n]."""
        self._compiling.join()
        self._arrays.clear()
        for name in ("online", "target", "average"):
            self._variables[name][: len(values)].assign(values)
        self._read("online")

    def _read(self, name: str) -> np.ndarray:
        self._compiling.join()
        if name not in self._arrays:
            self._arrays[name] = np.asarray(memoryview(self._variables[name].read_value()))
        return self._arrays[name]

    def _write(self, *vectors: np.ndarray) -> None:
        self._compiling.join()
        self._assign(*vectors)

    def _assign(self, *vectors: np.ndarray) -> None:
        self._arrays.clear()
        for variable, vector in zip(self._variables.values(), vectors, strict=True):
            variable.assign(vector)

    def _compile(self) -> None:
        """Compiles both kinds of step by making them, and takes them back."""
        initial, zeros = self._frozen, np.zeros(self._size, np.float32)
        signature = (tf.TensorSpec([self._size]), tf.TensorSpec([len(Numbers._fields)]))
        with tf.device("/CPU:0"):
            for copies_target in (False, True):
                function = tf.function(
                    lambda vector, numbers, copies=copies_target: self._trace(
                        vector, numbers, copies
                    ),
                    jit_compile=True,
                    autograph=False,
                ).get_concrete_function(*signature)
                nothing = Numbers(*[np.float32(0)] * len(Numbers._fields))._replace(step=1)
                function(_tensor(zeros), _tensor(np.array(nothing, np.float32)))
                self._steps[copies_target] = function
            self._assign(initial, initial, initial, *[zeros for _ in self._slot_names])
        compile_cache.seal()

    def _trace(self, vector: tf.Tensor, given: tf.Tensor, copies_target: bool) -> None:
        numbers = Numbers(*tf.unstack(given))
        values = {name: variable.read_value() for name, variable in self._variables.items()}
        slots = [values[name] for name in self._slot_names]
        online, average, slots = self._rule.apply(
            values["online"], values["average"], slots, vector, numbers
        )
        changed = {"online": online, "average": average}
        changed |= dict(zip(self._slot_names, slots, strict=True))
        if copies_target:
            changed["target"] = online
        elif self._target_rule.is_soft:
            way = online - values["target"]
            changed["target"] = values["target"] + numbers.target_share * way
        for name, value in changed.items():
            self._variables[name].assign(value)


def _tensor(array: np.ndarray) -> tf.Tensor:
    """The same memory as a tensor: copies of large pushes would take as long as the step itself."""
    if not array.flags.writeable or array.ctypes.data % encoding.ALIGNMENT:
        array = _aligned(array)
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


def _aligned(vector: np.ndarray) -> np.ndarray:
    """A copy, float32 [P], whose memory TensorFlow takes over as it is."""
    array = encoding.aligned(4 * len(vector)).view(np.float32)
    array[:] = vector
    return array
