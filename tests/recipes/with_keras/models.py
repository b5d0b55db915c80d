"""The models of recipes: an embedding, a body, a middle layer, a norm and a head, with parameters of unusual kinds."""

from __future__ import annotations

from typing import Any, Callable, Dict

from with_keras import versions
from with_keras.recipe import Recipe
from with_keras.versions import cast, floatx, keras

INPUTS, WIDTH, OUTPUTS, WORDS = 4, 5, 2, 8
layers = keras.layers


@keras.saving.register_keras_serializable("recipes")
class Trained(keras.Model):
    """A model whose loss may have a factor, which `evaluate()` has, too."""

    factor = staticmethod(lambda: 1.0)

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        return self.factor() * super().compute_loss(*arguments, **options)


@keras.saving.register_keras_serializable("recipes")
class Stepped(Trained):
    """A model with its own `train_step`, on TensorFlow."""

    def train_step(self, data: Any) -> Any:
        import tensorflow as tf

        x, y = data
        with tf.GradientTape() as tape:
            output = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=output)
            if versions.IS_THREE:
                self._loss_tracker.update_state(loss, sample_weight=tf.shape(y)[0])
            scaled = versions.scaled(self.optimizer, loss)
        gradients = tape.gradient(scaled, self.trainable_variables)
        versions.apply(self.optimizer, gradients, self.trainable_variables)
        return self.compute_metrics(x, y, output, None)


@keras.saving.register_keras_serializable("recipes")
class Scaled(layers.Layer):
    """Multiplies by a number."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, x: Any) -> Any:
        return x * cast(self.scale, x.dtype)


@keras.saving.register_keras_serializable("recipes")
class Unused(Scaled):
    """Its parameter has no gradient."""

    def call(self, x: Any) -> Any:
        return x + 0


@keras.saving.register_keras_serializable("recipes")
class Resting(Scaled):
    """It is used in two passes, and then not used in two: then the gradient is zero."""

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.calls = self.add_weight(shape=(), initializer="zeros", dtype="int32", trainable=False, name="calls")

    def call(self, x: Any, training: bool = False) -> Any:
        used = cast(self.calls % 4 >= 2, x.dtype)
        if training:
            self.calls.assign(self.calls + 1)
        return x + used * super().call(x)


@keras.saving.register_keras_serializable("recipes")
class Empty(layers.Layer):
    """Has a parameter without entries."""

    def build(self, shape: Any) -> None:
        self.nothing = self.add_weight(shape=(0,), initializer="zeros", name="nothing")

    def call(self, x: Any) -> Any:
        return x + cast(versions.total(self.nothing), x.dtype)


@keras.saving.register_keras_serializable("recipes")
class Wide(Scaled):
    """Computes in float32 whatever the other layers do."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "dtype": "float32"})

    def call(self, x: Any) -> Any:
        return cast(super().call(x), floatx())


EXTRAS: Dict[str, Callable[..., Any]] = {
    "scalar": Scaled,
    "unused": Unused,
    "resting": Resting,
    "empty": Empty,
    "wide": Wide,
}


def make_model(recipe: Recipe, sync_batch_norm: Callable[..., Any]) -> Any:
    """The model of the recipe, which is not compiled. Layers have names, so that those of a second model are equal."""
    versions.set_types("float32" if recipe.dtype.startswith("mixed") else recipe.dtype, recipe.dtype)
    inputs, words = keras.Input((INPUTS,), name="inputs"), keras.Input((), dtype="int32", name="words")
    x = layers.Rescaling(1.0, name="cast")(inputs)
    if recipe.embedding:
        x = layers.Add(name="sum")([x, layers.Embedding(WORDS, INPUTS, name="table")(words)])
    x = BODIES[recipe.body](recipe, x)
    if recipe.is_shared:
        middle = layers.Dense(WIDTH, activation="tanh", name="middle")
        x = middle(middle(x))
    if recipe.norm:
        make = sync_batch_norm if recipe.norm == "sync" else NORMS[recipe.norm]
        x = make(name="norm")(x)
    if recipe.dropout:
        x = layers.Dropout(0.3, seed=recipe.seed, name="dropout")(x)
    for name in recipe.extras:
        x = EXTRAS[name](name=name)(x)
    x = layers.Dense(OUTPUTS, name="head")(x)
    x = layers.Activation("softmax" if recipe.loss == "categorical_crossentropy" else "linear", name="output")(x)
    kind = Stepped if recipe.loop == "train_step" else Trained
    return kind([inputs, words], x)


def _linear(recipe: Recipe, x: Any) -> Any:
    return layers.Dense(WIDTH, activation="tanh", **of_first(recipe))(x)


def _deep(recipe: Recipe, x: Any) -> Any:
    x = layers.Dense(WIDTH, activation="gelu", name="second")(_linear(recipe, x))
    return layers.Dense(WIDTH, activation="tanh", name="third")(x)


def _conv(recipe: Recipe, x: Any) -> Any:
    x = layers.Reshape((2, 2, 1), name="square")(x)
    x = layers.Conv2D(3, 2, padding="same", activation="tanh", **of_first(recipe))(x)
    return layers.Dense(WIDTH, activation="tanh", name="second")(layers.Flatten(name="flat")(x))


def _gru(recipe: Recipe, x: Any) -> Any:
    return layers.GRU(WIDTH, **of_first(recipe))(layers.Reshape((2, 2), name="pairs")(x))


def _attention(recipe: Recipe, x: Any) -> Any:
    x = layers.Reshape((2, 2), name="pairs")(x)
    x = layers.MultiHeadAttention(1, 2, **of_first(recipe))(x, x)
    return layers.Dense(WIDTH, activation="tanh", name="second")(layers.Flatten(name="flat")(x))


BODIES: Dict[str, Callable[[Recipe, Any], Any]] = {
    "linear": _linear,
    "deep": _deep,
    "conv": _conv,
    "gru": _gru,
    "attention": _attention,
}
NORMS: Dict[str, Callable[..., Any]] = {
    "layer": layers.LayerNormalization,
    "group": lambda name: layers.GroupNormalization(1, name=name),
    "batch": layers.BatchNormalization,
}
CONSTRAINTS = ("MaxNorm", "UnitNorm", "NonNeg")


def of_first(recipe: Recipe) -> Dict[str, Any]:
    """The options of the first layer."""
    made: Dict[str, Any] = {"name": "first"}
    if recipe.regularizer == "weights":
        made["kernel_regularizer"] = keras.regularizers.L1L2(0.01, 0.02)
    if recipe.regularizer == "activity":
        made["activity_regularizer"] = keras.regularizers.L2(0.1)
    if recipe.constraint:
        made["kernel_constraint"] = getattr(keras.constraints, recipe.constraint)()
    return made
