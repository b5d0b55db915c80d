"""The models of recipes: an embedding, a body, a middle layer, a norm and a head, with parameters of unusual kinds."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from mxnet import gluon

from with_mxnet.recipe import Recipe

INPUTS, WIDTH, OUTPUTS, WORDS = 4, 5, 2, 8
SHAPES = {"conv": (1, 2, 2), "gru": (2, 2)}
"""Of a row, where it is no vector."""
nn = gluon.nn


class Model(gluon.Block):
    """The script sets the number of the step, and the mask of the first rank's rows where there are such."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(prefix="model_")
        self.step, self.mask = 0, None
        self.shape = SHAPES.get(recipe.body, (INPUTS,))

        def units(number: int) -> int:
            return 0 if recipe.deferred else number

        with self.name_scope():
            self.table = nn.Embedding(WORDS, INPUTS) if recipe.embedding else None
            self.body = nn.HybridSequential()
            self.body.add(*BODIES[recipe.body](units))
            if recipe.is_shared:
                self.body.add(*[_dense(units(WIDTH))] * 2)
            if recipe.norm:
                self.body.add(NORMS[recipe.norm](in_channels=units(WIDTH)))
            if recipe.dropout:
                self.body.add(nn.Dropout(0.3))
            self.extras = nn.Sequential()
            self.extras.add(*[Scaled(name, self) for name in recipe.extras])
            self.head = nn.Dense(OUTPUTS, in_units=units(WIDTH))

    def forward(self, x: Any, words: Any) -> Any:
        x = x if self.table is None else x + self.table(words)
        return self.head(self.extras(self.body(x.reshape((-1, *self.shape)))))


class Scaled(gluon.Block):
    """Multiplies the rows by a number, those that `uses` says."""

    def __init__(self, name: str, model: Model) -> None:
        super().__init__(prefix=f"{name}_")
        self.uses = USES.get(name, lambda model: 1)
        self.dtype = DTYPES.get(name)
        self.model = [model]  # not as a child
        self.scale = self.params.get("scale", shape=(1,), init="ones")
        if name == "constant":
            self.params.get_constant("constant", [2.0])

    def cast(self, dtype: str) -> None:
        super().cast(self.dtype or dtype)

    def forward(self, x: Any) -> Any:
        share, scale = self.uses(*self.model), self.scale.data()
        if self.dtype:
            scale = scale.astype(x.dtype)  # MXNet does not add up gradients of astype()
        return x if share is None else x * (share * scale + 1 - share)


USES: Dict[str, Callable[[Model], Any]] = {
    "unused": lambda model: None,
    "resting": lambda model: None if model.step % 2 else 1,
    "routed": lambda model: model.mask,
}
"""Their gradients are stale in some steps."""
DTYPES = {"half": "float16", "wide": "float64"}
EXTRAS = ("scalar", "constant", *USES, *DTYPES)


def _dense(units: int) -> Any:
    return nn.Dense(WIDTH, activation="tanh", in_units=units)


BODIES: Dict[str, Callable[[Callable[[int], int]], List[Any]]] = {
    "linear": lambda units: [_dense(units(INPUTS))],
    "deep": lambda units: [_dense(units(INPUTS)), _dense(units(WIDTH)), _dense(units(WIDTH))],
    "conv": lambda units: [nn.Conv2D(3, 2, in_channels=units(1)), nn.Flatten(), _dense(units(3))],
    "gru": lambda units: [gluon.rnn.GRU(WIDTH, layout="NTC", input_size=units(2)), nn.Flatten(), _dense(units(10))],
}
NORMS = {"layer": nn.LayerNorm, "batch": nn.BatchNorm}
