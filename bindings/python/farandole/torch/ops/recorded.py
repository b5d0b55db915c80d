"""Generates PyTorch's operations: the functions that work in graphs and record gradients, and a class for each
operation that autograd records."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from farandole.common import signatures
from farandole.common.wrappers import Wrapper, defined, run_of
from farandole.torch.arguments import require_tensors
from farandole.torch.entry import records_gradients
from farandole.torch.graph import is_tracing

Gradients = List[torch.Tensor]

_TEXT = '''
class {kind}(torch.autograd.Function):
    """{about}"""

    @staticmethod
    def forward(ctx, {parameters}):
        ctx.is_group = {is_group}
        ctx.options = ({options},)
        call = {run}
        output = call.finish()
        {kept}
        return output

    @staticmethod
    def backward(ctx, {incoming}):
        {returned}
'''


def wrapper_for(module: str, **helpers: Any) -> Wrapper:
    """A ``Wrapper`` for a module of PyTorch's operations."""
    own: Dict[str, Any] = {"is_tracing": is_tracing, "listed": require_tensors, "records_gradients": records_gradients}
    return Wrapper("torch", module, **own, **helpers)


def recorded_in(module: str) -> Callable[..., Any]:
    """Returns a factory of the classes that autograd records, which belong to ``module``. A class is named after its
    operation, such as ``HorovodAllreduce``, and takes its arguments without the compressor; the tensors of a group
    are last.

    The factory takes the operation's name, the function that starts it, and ``back``, which is called with the
    context and the contiguous gradients of all outputs and returns the gradients of the inputs. The context holds:

    - ``is_group``: whether the operation takes a group
    - ``options``: the arguments other than tensors, in their order
    - ``rows``: for operations that gather, the number of rows of each rank, for each tensor
    """

    def make(name: str, start: Callable[..., Any], back: Callable[[Any, Gradients], Gradients]) -> Any:
        tensor, *options = [each for each, _ in signatures.row("torch", name) if each != "compression"]
        is_group = tensor == "tensors"
        nothing = ", ".join(["None"] * len(options))
        one = f"({back.__name__}(ctx, [grad_output.contiguous()])[0], {nothing})"
        all_ = f"({nothing}, *{back.__name__}(ctx, [each.contiguous() for each in grad_output]))"
        return defined(
            module,
            kind := "Horovod" + name.title().replace("_", ""),
            _TEXT.format(
                kind=kind,
                about=f"{name} with {'gradients' if is_group else 'a gradient'}: {back.__doc__}",
                parameters=", ".join([*options, "*tensors"] if is_group else [tensor, *options]),
                is_group=is_group,
                options=", ".join(options),
                run=run_of("torch", name, start),
                kept="ctx.rows = [handle.first_dims for handle in call.handles]" if "gather" in name else "",
                incoming="*grad_output" if is_group else "grad_output",
                returned=f"return {all_ if is_group else one}",
            ),
            {"torch": torch, start.__name__: start, back.__name__: back},
        )

    return make
