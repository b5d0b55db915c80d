"""The models of recipes: a body, an embedding, a middle layer, a norm and a head, with parameters of unusual kinds."""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch
from torch.utils.checkpoint import checkpoint

from with_torch.recipe import Recipe

INPUTS, WIDTH, OUTPUTS, WORDS = 4, 5, 2, 8
RARE_WORDS = 2
"""A batch has few of them, so a rank often has none, and sometimes no rank has one."""


class Body(torch.nn.Module):
    """The layers of this kind, from a row of inputs to a row of features.

    :param memory_format: of the images for a convolution, which have two channels and two points
    """

    def __init__(self, kind: str, bias: bool, memory_format: torch.memory_format) -> None:
        super().__init__()
        self.kind = kind
        self.memory_format = memory_format
        if kind == "conv":
            self.first: Any = torch.nn.Conv2d(2, 4, 2, padding=1)
            self.last = torch.nn.Linear(24, WIDTH)
        elif kind == "gru":
            self.first = torch.nn.GRU(2, WIDTH, batch_first=True)
        elif kind == "attention":
            self.first = torch.nn.MultiheadAttention(2, 1, batch_first=True, bias=False)  # that of keys has no gradient
            self.last = torch.nn.Linear(INPUTS, WIDTH)
        else:
            self.first = torch.nn.Linear(INPUTS, WIDTH, bias=bias)
            deep = [torch.nn.Linear(WIDTH, WIDTH, bias=bias), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH, bias=bias)]
            self.last = torch.nn.Sequential(*deep if kind == "deep" else [])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind == "conv":
            images = x.reshape(-1, 2, 2, 1).contiguous(memory_format=self.memory_format)
            x = self.last(torch.relu(self.first(images)).flatten(1))
        elif self.kind == "gru":
            x = self.first(x.reshape(-1, 2, 2))[0][:, -1]
        elif self.kind == "attention":
            pairs = x.reshape(-1, 2, 2)
            x = self.last(self.first(pairs, pairs, pairs, need_weights=False)[0].flatten(1))
        else:
            x = self.last(torch.tanh(self.first(x)))
        return torch.tanh(x)


class Network(torch.nn.Module):
    """The model of a recipe.

    :param sync_batch_norm: makes a batch norm over the whole batch
    """

    def __init__(self, recipe: Recipe, sync_batch_norm: Callable[[int], torch.nn.Module]) -> None:
        super().__init__()
        bias = recipe.optimizer != "Muon"  # it takes only matrices
        self.recipe = recipe
        is_last = recipe.layout == "channels_last"
        self.body = Body(recipe.body, bias, torch.channels_last if is_last else torch.contiguous_format)
        if recipe.embedding:
            self.table = torch.nn.Embedding(WORDS, INPUTS, sparse=recipe.embedding == "sparse")
        if recipe.is_shared or recipe.checkpoint:
            self.middle = torch.nn.Linear(WIDTH, WIDTH, bias=bias)
        if recipe.norm:
            self.norm = NORMS[recipe.norm](WIDTH) if recipe.norm != "sync" else sync_batch_norm(WIDTH)
        for name in recipe.extras:
            EXTRAS[name](self)
        self.head = torch.nn.Linear(WIDTH, OUTPUTS, bias=bias)
        if "weight_norm" in recipe.extras:
            torch.nn.utils.parametrizations.weight_norm(self.head)

    def forward(self, x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        recipe = self.recipe
        if recipe.embedding:
            x = x + self.table(words)
        if "rare_words" in recipe.extras:
            rows = (words < RARE_WORDS).nonzero().flatten()
            if rows.numel():
                x = x.index_add(0, rows, self.rare_table(words[rows]).to(x.dtype))
        x = self.body(x)
        for _ in range(1 + recipe.is_shared if hasattr(self, "middle") else 0):
            x = torch.tanh(self._middle(x))
        if recipe.norm:
            x = self.norm(x)
        if recipe.dropout:
            x = torch.nn.functional.dropout(x, 0.3, self.training)
        if "resting" in recipe.extras:
            x = self._with_resting(x)
        if "routed" in recipe.extras:
            for word, expert in enumerate(self.experts):
                rows = (words == word).nonzero().flatten()
                if rows.numel():
                    x = x.index_add(0, rows, torch.tanh(expert(x[rows])).to(x.dtype))
        return self._with_extras(x)

    def _with_resting(self, x: torch.Tensor) -> torch.Tensor:
        """It is used in two passes, and then not used in two."""
        is_used = self.passes % 4 >= 2
        self.passes += self.training
        return x + torch.tanh(self.resting(x)) if is_used else x

    def _middle(self, x: torch.Tensor) -> torch.Tensor:
        if not self.recipe.checkpoint:
            return self.middle(x)  # type: ignore[no-any-return]
        return checkpoint(self.middle, x, use_reentrant=self.recipe.checkpoint == "reentrant")  # type: ignore[no-any-return]

    def _with_extras(self, x: torch.Tensor) -> torch.Tensor:
        extras = self.recipe.extras
        if "complex" in extras:
            x = (x * self.phases).real.to(x.dtype)
        if "mixed" in extras:
            x = x + self.offsets.to(x.dtype)
        x = self.head(x)
        if self.recipe.is_autocast and self.training:
            assert x.dtype == torch.bfloat16, "autocast has no effect"
        if "scalar" in extras:
            x = x * self.scale
        if "empty" in extras:
            x = x + self.nothing.sum()
        if "named" in extras:
            x = x * self.named["a b/ä"]
        if "expanded" in extras:
            x = x + self.plain_sum.sum()
        return x


NORMS: Dict[str, Callable[[int], torch.nn.Module]] = {
    "layer": torch.nn.LayerNorm,
    "group": lambda width: torch.nn.GroupNorm(1, width),
    "batch": torch.nn.BatchNorm1d,
}


def _add_complex(model: Network) -> None:
    dtype = torch.complex64 if model.recipe.dtype == "float32" else torch.complex128
    model.phases = torch.nn.Parameter(torch.randn(WIDTH, dtype=dtype))


def _add_mixed(model: Network) -> None:
    model.offsets = torch.nn.Parameter(torch.randn(WIDTH, dtype=torch.bfloat16))


def _add_scalar(model: Network) -> None:
    model.scale = torch.nn.Parameter(torch.tensor(1.5))


def _add_empty(model: Network) -> None:
    model.nothing = torch.nn.Parameter(torch.zeros(0, 3))


def _add_named(model: Network) -> None:
    model.named = torch.nn.ParameterDict({"a b/ä": torch.nn.Parameter(torch.ones(OUTPUTS))})


def _add_expanded(model: Network) -> None:
    """Its only use is a sum, so its gradient is an expanded number."""
    model.plain_sum = torch.nn.Parameter(torch.zeros(2, 3))


def _add_tied(model: Network) -> None:
    """A module that has two names."""
    model.other_body = model.body


def _add_resting(model: Network) -> None:
    """A layer that no rank uses in some passes."""
    model.passes = 0
    model.resting = torch.nn.Linear(WIDTH, WIDTH)


def _add_routed(model: Network) -> None:
    """Layers for the rows of one word each, of which a rank may have none."""
    model.experts = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(RARE_WORDS))


def _add_rare_words(model: Network) -> None:
    """A table of words of which a rank may have none. Its gradients are sparse if the recipe's embedding is."""
    model.rare_table = torch.nn.Embedding(RARE_WORDS, INPUTS, sparse=model.recipe.embedding == "sparse")


EXTRAS: Dict[str, Callable[[Network], None]] = {
    "complex": _add_complex,
    "mixed": _add_mixed,
    "scalar": _add_scalar,
    "empty": _add_empty,
    "named": _add_named,
    "expanded": _add_expanded,
    "tied": _add_tied,
    "weight_norm": lambda model: None,  # when there is a head
    "resting": _add_resting,
    "routed": _add_routed,
    "rare_words": _add_rare_words,
}
OFTEN_UNUSED = ("resting", "routed", "rare_words")
"""Parameters that some ranks or all do not use in some steps."""


def make_model(recipe: Recipe, sync_batch_norm: Callable[[int], torch.nn.Module]) -> Network:
    """The model with the recipe's types and layouts."""
    model = Network(recipe, sync_batch_norm)
    dtype = getattr(torch, recipe.dtype)
    for parameter in model.parameters():
        if parameter.dtype == torch.float32:
            parameter.data = parameter.data.to(dtype)
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.dtype == torch.float32:
                setattr(module, name, buffer.to(dtype))
    if recipe.layout == "channels_last":
        model.to(memory_format=torch.channels_last)
    if recipe.layout == "transposed":
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.data = parameter.data.t().contiguous().t()
    return model
