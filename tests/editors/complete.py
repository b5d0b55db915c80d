"""Asks Jedi for the completions that an editor shows while a user writes a script, and prints them as JSON.

It runs in the environment that has Jedi; its argument is the interpreter of the user's environment.
"""

from __future__ import annotations

import json
import sys
from typing import List

import jedi

SCRIPT = """\
import torch
import horovod.torch as hvd
optimizer = hvd.DistributedOptimizer(torch.optim.SGD([torch.ones(1)], lr=0.1))
state = hvd.elastic.TorchState(epoch=0)
"""
environment = jedi.create_environment(sys.argv[1], safe=False)


def names_after(text: str) -> List[str]:
    """The public names that Jedi offers after a text."""
    script = jedi.Script(SCRIPT + text, environment=environment)
    return [completion.name for completion in script.complete() if not completion.name.startswith("_")]


def parameters_of(text: str) -> List[str]:
    (signature,) = jedi.Script(SCRIPT + text, environment=environment).get_signatures()
    return [parameter.name for parameter in signature.params]


answers = {
    "package": names_after("hvd."),
    "elastic": names_after("hvd.elastic."),
    "optimizer": names_after("optimizer."),
    "state": names_after("state."),
    "import": names_after("from horovod.torch import Dist"),
    "allreduce": parameters_of("hvd.allreduce("),
}
json.dump(answers, sys.stdout)
