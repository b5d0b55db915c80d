"""Models and optimizers of PyTorch as bytes.

A TorchScript module is saved by ``torch.jit``. A module that consists of PyTorch's own layers, and an optimizer of
PyTorch, are saved by ``torch.save`` in the form that ``weights_only=True`` loads. Loading these runs no code that the
author of the bytes chose. Any other object has a class of the user, which only a pickle can hold.
"""

from __future__ import annotations

import io
from typing import Any, Dict, List, Optional, Tuple

from farandole.spark.common.serialization import PICKLE, Codec, Encoded, pickled, unpickled

TORCHSCRIPT = "torchscript"
LAYERS = "torch layers"
OPTIMIZER = "torch optimizer"
_TRUSTED = "torch.nn.modules."


def encode_model(model: Any) -> Encoded:
    """The model as bytes, in a safe format if one can hold it; ``pickle.PicklingError`` names a part that no format
    can hold."""
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        stream = io.BytesIO()
        torch.jit.save(model, stream)
        return Encoded(TORCHSCRIPT, stream.getvalue())
    if all(type(each).__module__.startswith(_TRUSTED) for each in model.modules()):
        content = _saved(model)
        if content is not None:
            return Encoded(LAYERS, content)
    return Encoded(PICKLE, pickled(model, "model"))


def _saved(model: Any) -> Optional[bytes]:
    """The bytes of a model that this version of PyTorch loads with ``weights_only=True``; None if it does not."""
    import torch

    stream = io.BytesIO()
    try:
        torch.save(model, stream)
        _load_layers(stream.getvalue())
    except Exception:  # for example a hook, or a version of PyTorch that has no list of allowed classes
        return None
    return stream.getvalue()


def _load_layers(content: bytes) -> Any:
    """Loads a model of PyTorch's own layers. ``pickle.UnpicklingError`` where the bytes name anything else."""
    import torch
    from torch.nn import modules

    serialization = torch.serialization
    named = serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(content))
    layers = {f"{each.__module__}.{name}": each for name, each in vars(modules).items() if isinstance(each, type)}
    with serialization.safe_globals([layers[name] for name in named if name in layers]):
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def decode_model(encoded: Encoded) -> Any:
    """The model of ``encode_model``, on the CPU. A pickle runs code that it names."""
    import torch

    if encoded.format == TORCHSCRIPT:
        return torch.jit.load(io.BytesIO(encoded.content), map_location="cpu")
    if encoded.format == LAYERS:
        return _load_layers(encoded.content)
    return unpickled(encoded.content)


def encode_optimizer(optimizer: Any, model: Any) -> Encoded:
    """The optimizer as bytes that refer to the model's parameters by their names. An optimizer of PyTorch has a safe
    format, any other is a pickle.

    ``ValueError`` where the optimizer has a parameter that is not the model's.
    """
    parameters = dict(model.named_parameters())  # held, because ids are unique among living objects only
    names = {id(parameter): name for name, parameter in parameters.items()}
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    foreign = [tuple(parameter.shape) for parameter in listed if id(parameter) not in names]
    if foreign:
        raise ValueError(
            f"the optimizer has {len(foreign)} parameters that are not parameters of the model, the first with shape "
            f"{foreign[0]}: make the optimizer from the parameters of the model that the estimator gets"
        )
    content = _state_of(optimizer, names)
    return Encoded(PICKLE, _pickled_optimizer(optimizer, names)) if content is None else Encoded(OPTIMIZER, content)


def _state_of(optimizer: Any, names: Dict[int, str]) -> Optional[bytes]:
    """The class, the groups and the state of an optimizer of PyTorch; None for other optimizers."""
    import torch

    kind = type(optimizer)
    if getattr(torch.optim, kind.__name__, None) is not kind:
        return None
    groups = [
        {**group, "params": [names[id(parameter)] for parameter in group["params"]]} for group in optimizer.param_groups
    ]
    stream = io.BytesIO()
    try:
        torch.save({"class": kind.__name__, "groups": groups, "state": optimizer.state_dict()}, stream)
        torch.load(io.BytesIO(stream.getvalue()), weights_only=True)
    except Exception:  # an option or a state that is neither a tensor nor a plain value
        return None
    return stream.getvalue()


def _pickled_optimizer(optimizer: Any, names: Dict[int, str]) -> bytes:
    import cloudpickle
    import torch

    class Pickler(cloudpickle.Pickler):
        def persistent_id(self, value: Any) -> Optional[str]:
            return names.get(id(value)) if isinstance(value, torch.Tensor) else None

    stream = io.BytesIO()
    Pickler(stream).dump(optimizer)
    return stream.getvalue()


def decode_optimizer(encoded: Encoded, model: Any) -> Any:
    """The optimizer of ``encode_optimizer`` for a model with the same names of parameters. A pickle runs code that it
    names."""
    import pickle

    import torch

    parameters = dict(model.named_parameters())
    if encoded.format == OPTIMIZER:
        values = torch.load(io.BytesIO(encoded.content), map_location="cpu", weights_only=True)
        groups = [{**group, "params": [parameters[name] for name in group["params"]]} for group in values["groups"]]
        kind = getattr(torch.optim, values["class"], None)
        if not isinstance(kind, type) or not issubclass(kind, torch.optim.Optimizer):
            raise ValueError(f"the optimizer is saved as a {values['class']}, which is no optimizer of this PyTorch")
        make: Any = kind
        optimizer = make(groups)
        optimizer.load_state_dict(values["state"])
        return optimizer

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, name: str) -> Any:
            return parameters[name]

    return Unpickler(io.BytesIO(encoded.content)).load()


class TorchCodec(Codec):
    """The values of the parameters of estimators and models for PyTorch."""

    first = ("model",)
    safe_formats = (*Codec.safe_formats, TORCHSCRIPT, LAYERS, OPTIMIZER)

    def encode(self, name: str, value: Any, values: Dict[str, Any]) -> Encoded:
        """Encodes a value. ``ValueError`` for an optimizer whose parameters are not those of the model."""
        import torch

        if isinstance(value, torch.nn.Module):  # losses are modules, too
            return encode_model(value)
        if name == "optimizer" and values.get("model") is not None:
            return encode_optimizer(value, values["model"])
        return super().encode(name, value, values)

    def decode(self, name: str, encoded: Encoded, values: Dict[str, Any]) -> Any:
        """Decodes a value; ``ValueError`` for a format that this version does not know."""
        if encoded.format in (TORCHSCRIPT, LAYERS):
            return decode_model(encoded)
        if name == "optimizer" and values.get("model") is not None:
            return decode_optimizer(encoded, values["model"])
        return super().decode(name, encoded, values)


def copy_of(model: Any, optimizer: Any) -> Tuple[Any, Any]:
    """Copies of a model and of an optimizer of its parameters, which share nothing with them."""
    copied = decode_model(encode_model(model))
    return copied, None if optimizer is None else decode_optimizer(encode_optimizer(optimizer, model), copied)


def names_of_differences(expected: Dict[str, Any], found: Dict[str, Any]) -> List[str]:
    """Descriptions of the entries in which two state dicts of models differ: in presence or in shape."""
    differences = [f"{name} is missing" for name in expected if name not in found]
    differences += [f"{name} is not in the model" for name in found if name not in expected]
    for name, value in expected.items():
        other = found.get(name)
        if other is not None and hasattr(value, "shape") and tuple(value.shape) != tuple(other.shape):
            differences.append(f"{name} has shape {tuple(other.shape)}, and {tuple(value.shape)} in the model")
    return differences
