"""Networks as a user writes them, good ones and bad ones; `--network=support.user_networks:mlp`."""

import keras

NUMBER = 3


def mlp(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    inputs = keras.Input(observation_shape)
    x = keras.layers.Dense(8, "tanh")(keras.layers.Flatten()(inputs))
    return keras.Model(inputs, keras.layers.Dense(num_outputs)(x))


def ends_in_float32(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    inputs = keras.Input(observation_shape)
    x = keras.layers.Dense(8, "tanh")(keras.layers.Flatten()(inputs))
    return keras.Model(inputs, keras.layers.Dense(num_outputs, dtype="float32")(x))


def mlp_of_bytes(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    inputs = keras.Input(observation_shape, dtype="uint8")
    x = keras.layers.Flatten()(keras.layers.Rescaling(1 / 51)(inputs))
    return keras.Model(inputs, keras.layers.Dense(num_outputs)(x))


def any_image(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    inputs = keras.Input((None, None, observation_shape[-1]))
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(inputs))
    return keras.Model(inputs, keras.layers.Dense(num_outputs)(x))


def without_an_input(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(num_outputs)])


@keras.saving.register_keras_serializable("user_networks")
class Twice(keras.Model):
    """A subclass: it has no weights before it is called."""

    def __init__(self, num_outputs: int, **kwargs):
        super().__init__(**kwargs)
        self.num_outputs = num_outputs
        self.dense = keras.layers.Dense(num_outputs)

    def call(self, inputs):
        return 2 * self.dense(inputs)

    def get_config(self):
        return super().get_config() | {"num_outputs": self.num_outputs}


def subclass(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    return Twice(num_outputs)


def raises(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    raise KeyError("nowhere\nto be found")


def raises_when_called(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    return keras.Sequential([keras.layers.Conv2D(4, 3), keras.layers.Dense(num_outputs)])


def no_arguments() -> keras.Model:
    return keras.Sequential()


def a_layer(observation_shape: tuple[int, ...], num_outputs: int) -> keras.layers.Layer:
    return keras.layers.Dense(num_outputs)


def wrong_input(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    return mlp((7, *observation_shape[1:]), num_outputs)


def wrong_rank(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    return mlp((*observation_shape, 1), num_outputs)


def two_inputs(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    inputs = [keras.Input(observation_shape), keras.Input((1,))]
    x = keras.layers.Concatenate()(inputs)
    return keras.Model(inputs, keras.layers.Dense(num_outputs)(x))


def wrong_output(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    return mlp(observation_shape, num_outputs + 1)


def two_outputs(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    inputs = keras.Input(observation_shape)
    outputs = [keras.layers.Dense(num_outputs)(inputs), keras.layers.Dense(1)(inputs)]
    return keras.Model(inputs, outputs)


def batch_norm(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    layers = [keras.layers.BatchNormalization(name="averages"), keras.layers.Dense(num_outputs)]
    return keras.Sequential(layers)


def no_weights(observation_shape: tuple[int, ...], num_outputs: int) -> keras.Model:
    inputs = keras.Input(observation_shape)
    return keras.Model(inputs, keras.ops.tile(inputs[:, :1], (1, num_outputs)))


def of_parts(observation_shape: dict | tuple[int, ...], num_outputs: int) -> keras.Model:
    is_one = not isinstance(observation_shape, dict)
    shapes = {"": observation_shape} if is_one else observation_shape
    inputs = {name: keras.Input(shape, name=name or None) for name, shape in shapes.items()}
    flat = keras.ops.concatenate(
        [keras.layers.Flatten()(each) for each in inputs.values()], axis=-1
    )
    return keras.Model(inputs[""] if is_one else inputs, keras.layers.Dense(num_outputs)(flat))


def of_other_parts(observation_shape: dict, num_outputs: int) -> keras.Model:
    return of_parts({"nothing like it": (3,)}, num_outputs)
