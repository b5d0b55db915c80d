"""The features of PyTorch's recipes that exclude each other."""

from __future__ import annotations

import dataclasses

from excluding import Exclusion, default, known_options, repaired, without

from with_torch.models import OFTEN_UNUSED
from with_torch.optimizers import CHOICES
from with_torch.recipe import HALVES, Recipe
from with_torch.seats import LOSSY

COMPRESSORS = {*LOSSY, "custom", "measured"}
WITH_ERRORS = {"topk", "powersgd", "custom"}

COPIES = ("deepcopy", "pickle")


def is_lbfgs(recipe: Recipe) -> bool:
    return recipe.optimizer == "LBFGS"


PYTORCH = (
    Exclusion(
        "hooks of several tensors do not know torch.autograd.grad",
        lambda r: r.backward == "grad",
        {"hooks": without("hooks", "several", "everywhere")},
    ),
    Exclusion(
        "a rank calls no hooks of parameters and modules that it does not use",
        lambda r: {"routed", "rare_words"} & {*r.extras},
        {"hooks": without("hooks", "tensor", "everywhere")},
    ),
    Exclusion(
        "with frozen layers, the input of a later one needs a gradient only on a rank that uses the parameters between "
        "them: on others SyncBatchNorm sends none, and a hook of the module warns",
        lambda r: r.frozen and {"routed", "rare_words"} & {*r.extras},
        {"norm": lambda r: "" if r.norm == "sync" else r.norm, "hooks": without("hooks", "module")},
    ),
    Exclusion(
        "the sum of gradients in half precision has an error of its own",
        lambda r: r.op == "Sum" and r.dtype in HALVES,
        {"dtype": "float32"},
    ),
    Exclusion(
        "each optimizer has options of its own",
        lambda r: r.options != known_options(r, CHOICES),
        {"options": lambda r: known_options(r, CHOICES)},
    ),
    Exclusion(
        "Muon takes only matrices",
        lambda r: r.optimizer == "Muon",
        {**default("norm", "extras", "groups"), "body": lambda r: r.body if r.body == "deep" else "linear"},
    ),
    Exclusion(
        "SparseAdam takes only sparse gradients, so another optimizer has the other parameters",
        lambda r: r.optimizer == "SparseAdam",
        {**default("groups"), "embedding": "sparse", "second": lambda r: r.second or "parts"},
    ),
    Exclusion(
        "only SparseAdam, Adagrad and SGD without momentum take sparse gradients, without decay and fused loops",
        lambda r: r.embedding == "sparse" and r.optimizer not in ("SparseAdam", "Adagrad", "SGD"),
        {"embedding": "dense"},
    ),
    Exclusion(
        "SparseAdam takes neither complex parameters nor those of the head, and needs a loop without a closure",
        lambda r: r.optimizer == "SparseAdam",
        {**default("closure", "added"), "extras": without("extras", "complex")},
    ),
    Exclusion(
        "sparse gradients: see above",
        lambda r: r.embedding == "sparse",
        {"options": without("options", "momentum", "dampening", "nesterov", "decay", "fused", "foreach")},
    ),
    Exclusion(
        "sparse gradients are neither clipped nor scaled, and hooks cannot write to them in place",
        lambda r: r.embedding == "sparse",
        {**default("clip", "scaler", "create_graph"), "penalty": lambda r: "" if r.penalty == "weights" else r.penalty},
    ),
    Exclusion(
        "these schedulers give SGD a momentum, with which it takes no sparse gradients",
        lambda r: r.embedding == "sparse" and r.optimizer == "SGD" and r.scheduler in ("CyclicLR", "OneCycleLR"),
        default("scheduler"),
    ),
    Exclusion("L-BFGS has one group", is_lbfgs, default("groups", "added", "second")),
    Exclusion(
        "L-BFGS steps with a closure, which a scaler does not accept", is_lbfgs, {**default("scaler"), "closure": True}
    ),
    Exclusion("a scaler does not accept a closure", lambda r: r.closure, default("scaler")),
    Exclusion(
        "a rate that is a tensor needs a loop or a fused step",
        lambda r: "tensor_rate" in r.options,
        {"options": without("options", "foreach"), **default("groups", "added")},
    ),
    Exclusion("a closure belongs to one optimizer", lambda r: r.closure and r.second, default("second")),
    Exclusion(
        "fused steps take no complex numbers", lambda r: "fused" in r.options, {"extras": without("extras", "complex")}
    ),
    Exclusion("a scaler takes no complex numbers", lambda r: r.scaler, {"extras": without("extras", "complex")}),
    Exclusion("complex numbers have no range", lambda r: r.clip == "value", {"extras": without("extras", "complex")}),
    Exclusion(
        "an empty tensor has no maximum, which Adafactor computes, too",
        lambda r: r.clip == "maximum" or r.optimizer == "Adafactor",
        {"extras": without("extras", "empty")},
    ),
    Exclusion(
        "Adafactor takes no complex numbers",
        lambda r: r.optimizer == "Adafactor",
        {"extras": without("extras", "complex")},
    ),
    Exclusion(
        "L-BFGS diverges with gradients that are clipped to one length: their differences, by which it divides, do not "
        "follow those of the weights",
        lambda r: is_lbfgs(r) and r.clip in ("norm", "maximum"),
        {"clip": "value"},
    ),
    Exclusion("a copy of L-BFGS lacks its parameters", lambda r: is_lbfgs(r) and r.resume in COPIES, default("resume")),
    Exclusion(
        "L-BFGS needs contiguous weights of one type, and amplifies rounding errors",
        is_lbfgs,
        {**default("layout", "dtype", "is_autocast"), "extras": without("extras", "mixed")},
    ),
    Exclusion(
        "the keys' bias of attention has no gradient but a rounding error, by whose size L-BFGS divides",
        lambda r: is_lbfgs(r) and r.body == "attention",
        {"body": "deep"},
    ),
    Exclusion(
        "what is added to all logits has no gradient but a rounding error, by whose size optimizers divide",
        lambda r: r.loss == "entropy",
        {"extras": without("extras", "expanded")},
    ),
    Exclusion(
        "before a batch norm, the gradient of a bias is a rounding error, which is large in short types",
        lambda r: r.norm == "sync",
        default("dtype", "is_autocast"),
    ),
    Exclusion(
        "what is maximized grows without a bound, and with it the rounding errors of halves",
        lambda r: r.computes_in_halves,
        {"options": without("options", "maximize")},
    ),
    Exclusion(
        "Rprop steps by signs of gradients and Muon by singular vectors, in halves also by those of rounding errors",
        lambda r: r.computes_in_halves and r.optimizer in ("Rprop", "Muon"),
        {"optimizer": "Adam"},
    ),
    Exclusion(
        "after a batch that is dropped, only the ranks that have used a parameter have zeros for it",
        lambda r: r.remainder == "dropped" and r.clear.endswith("_zeros") and {"routed", "rare_words"} & {*r.extras},
        {"clear": "model"},
    ),
    Exclusion(
        "PyTorch does not add sparse gradients of float16",
        lambda r: r.dtype == "float16" and r.embedding == "sparse",
        {"dtype": "bfloat16"},
    ),
    Exclusion("a scaler is for float32", lambda r: r.scaler and r.dtype in HALVES, {"dtype": "float32"}),
    Exclusion(
        "a scaler needs a gradient of each optimizer",
        lambda r: r.scaler and r.frozen and (r.second or r.added),
        default("frozen"),
    ),
    Exclusion(
        "an exponential moving average is not pickled",
        lambda r: r.resume == "pickle" and r.average == "ema",
        {"average": "swa"},
    ),
    Exclusion(
        "a fused step of SGD expects a momentum for a parameter that the first step did not use",
        lambda r: r.optimizer == "SGD" and ({*r.extras} & {*OFTEN_UNUSED} or r.frozen == "until"),
        {"options": without("options", "fused")},
    ),
    Exclusion(
        "a slope that is maximized has no bound",
        lambda r: "maximize" in r.options and r.penalty == "slope",
        default("penalty"),
    ),
    Exclusion(
        "a fused step expects a momentum for a parameter whose first step was skipped",
        lambda r: "fused" in r.options and r.frozen and r.scaler == "overflow",
        {"scaler": "plain"},
    ),
    Exclusion(
        "aot_eager has no second derivatives",
        lambda r: r.compiled.endswith("aot_eager") and r.penalty == "slope",
        default("compiled"),
    ),
    Exclusion(
        "an expanded gradient, which backward() copies, is not clipped, unscaled or halved in place",
        lambda r: r.backward == "grad" and (r.clip or r.scaler or "step" in r.hooks),
        {"extras": without("extras", "expanded")},
    ),
    Exclusion(
        "attention has no second derivatives",
        lambda r: r.body == "attention" and r.penalty == "slope",
        default("penalty"),
    ),
    Exclusion(
        "a parametrized module is not pickled",
        lambda r: r.resume == "pickle",
        {"extras": without("extras", "weight_norm")},
    ),
    Exclusion(
        "only convolutions have channels", lambda r: r.layout == "channels_last" and r.body != "conv", default("layout")
    ),
    Exclusion(
        "a reentrant checkpoint knows only backward(), without a graph",
        lambda r: r.checkpoint == "reentrant",
        {
            **default("create_graph", "compiled", "backward"),
            "penalty": lambda r: "" if r.penalty == "slope" else r.penalty,
        },
    ),
    Exclusion(
        "zero_grad() does not set gradients to zero that are views with a graph",
        lambda r: r.create_graph and r.backward == "grad" and r.clear.endswith("_zeros"),
        {"clear": "model"},
    ),
    Exclusion("a scheduler does not know groups that are added after it", lambda r: r.added, default("scheduler")),
    Exclusion("the second optimizer has the head already", lambda r: r.second, default("added")),
    Exclusion("hooks do not move with copies", lambda r: r.resume in COPIES, default("hooks", "compiled")),
    Exclusion("autocast leaves float64 alone", lambda r: r.is_autocast, {"dtype": "float32"}),
    Exclusion("remainders need several passes", lambda r: r.passes == 1, default("remainder")),
    Exclusion("a closure has one pass", lambda r: r.closure, default("passes", "remainder", "is_cleared_last")),
)
FARANDOLE = (
    Exclusion(
        "SyncBatchNorm has no second derivatives, and says so",
        lambda r: r.norm == "sync" and r.penalty == "slope",
        default("penalty"),
    ),
    Exclusion(
        "a sparse gradient does not travel densely in two ways",
        lambda r: r.embedding != "sparse",
        {"wrapping": without("wrapping", "as_dense")},
    ),
    Exclusion(
        "a row of zeros, as after a ReLU, does not travel densely, and SparseAdam would move it by its moments",
        lambda r: r.optimizer == "SparseAdam" and r.body == "conv",
        {"wrapping": without("wrapping", "as_dense")},
    ),
    Exclusion(
        "an elastic state drops gradients when it restores, also the zeros of a parameter that a step does not use",
        lambda r: r.resume == "elastic" and r.clear.endswith("_zeros") and (r.frozen or {*OFTEN_UNUSED} & {*r.extras}),
        {"clear": "model"},
    ),
    Exclusion(
        "the state of L-BFGS is not broadcast",
        lambda r: is_lbfgs(r) and r.resume in ("root", "elastic"),
        default("resume"),
    ),
    Exclusion(
        "a parameter is not used inside and outside of a reentrant checkpoint",
        lambda r: r.checkpoint == "reentrant",
        {"penalty": lambda r: "" if r.penalty == "weights" else r.penalty},
    ),
    Exclusion(
        "model.zero_grad() does not set gradients to zero while they are reduced for another optimizer's pass",
        lambda r: r.second == "turns" and r.clear == "model_zeros",
        {"clear": "model"},
    ),
    Exclusion("all ranks take part in what follows the second step", lambda r: r.steps < 3, default("uneven")),
    Exclusion(
        "after join(), ranks reduce, but they do not gather",
        lambda r: r.uneven,
        {
            "norm": lambda r: "" if r.norm == "sync" else r.norm,
            "embedding": lambda r: "dense" if r.embedding == "sparse" else r.embedding,
            "optimizer": lambda r: "Adam" if r.optimizer == "SparseAdam" else r.optimizer,
            "wrapping": without("wrapping", "topk"),
        },
    ),
    Exclusion(
        "without names, gradients have numbers, which two optimizers would share",
        lambda r: r.second,
        {"wrapping": without("wrapping", "unnamed")},
    ),
    Exclusion("only an average is predivided", lambda r: r.op == "Sum", {"wrapping": without("wrapping", "predivide")}),
    Exclusion(
        "Adasum combines steps, not gradients, and takes neither scalers nor compressors with errors",
        lambda r: r.op == "Adasum",
        {
            **default("clip", "scaler", "synchronize"),
            "hooks": without("hooks", "step", "everywhere"),  # it steps for each parameter
            "wrapping": without("wrapping", *WITH_ERRORS, "predivide"),
        },
    ),
    Exclusion("Adasum steps with each parameter alone", lambda r: is_lbfgs(r) and r.op == "Adasum", {"op": "Average"}),
    Exclusion(
        "a parameter that only some ranks use is frozen during the passes for another optimizer",
        lambda r: r.second == "turns" and {"routed", "rare_words"} & {*r.extras},
        {"second": "parts"},
    ),
    Exclusion(
        "a pass for another optimizer changes what Adasum and compressors keep",
        lambda r: r.second == "turns" and (r.op == "Adasum" or WITH_ERRORS & {*r.wrapping}),
        {"second": "parts"},
    ),
)
EXCLUSIONS = (*PYTORCH, *FARANDOLE)


def suited(recipe: Recipe, size: int) -> Recipe:
    """The recipe for this number of ranks, which must be a power of two for Adasum."""
    if recipe.op == "Adasum" and size & (size - 1):
        return repaired(dataclasses.replace(recipe, op="Average"), EXCLUSIONS)
    return recipe
