"""Objects of classes that the script defines itself are of the same classes on every rank that receives them."""

from __future__ import annotations

from pathlib import Path

import pytest
from launched import needs_launcher, run_script

pytestmark = needs_launcher

CLASSES = """
import collections, dataclasses, enum, typing
import horovod.torch as hvd

class Phase(enum.Enum):
    WARM_UP = 1
    TRAIN = 2

class Flags(enum.IntFlag):
    FROZEN = 1
    SHARED = 2

@dataclasses.dataclass(frozen=True)
class Options:
    rate: float
    phase: Phase
    class Inner(typing.NamedTuple):
        depth: int

Pair = collections.namedtuple("Pair", "first second")

class Odd(Exception):
    pass

def twice(x):
    return 2 * x

hvd.init()
LAST = hvd.size() - 1

def require(phase, flags, options, inner, pair, problem, function, called):
    assert phase is Phase.TRAIN and phase in (Phase.TRAIN,)
    assert flags == Flags.FROZEN | Flags.SHARED and isinstance(flags, Flags)
    assert options == Options(0.5, Phase.WARM_UP) and {options: 1}[Options(0.5, Phase.WARM_UP)] == 1
    assert isinstance(inner, Options.Inner) and inner.depth == 3
    assert type(pair) is Pair and pair.second is Phase
    assert isinstance(problem, Odd) and problem.args == ("text",)
    assert function is twice
    assert called(4) == (8, Phase.TRAIN) and called(4)[1] is Phase.TRAIN

def own():
    def local(x):  # pickle cannot send it
        return twice(x), Phase.TRAIN
    return (Phase.TRAIN, Flags.FROZEN | Flags.SHARED, Options(0.5, Phase.WARM_UP), Options.Inner(3), Pair(1, Phase),
            Odd("text"), twice, local)
"""

OPERATIONS = """
require(*hvd.broadcast_object(own() if hvd.rank() == LAST else None, LAST))
for each in hvd.allgather_object(own()):
    require(*each)
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, phase=Phase.TRAIN if hvd.rank() == 0 else None)
state.sync()
assert state.phase is Phase.TRAIN
torch_state = hvd.elastic.TorchState(phase=Phase.TRAIN if hvd.rank() == 0 else Phase.WARM_UP)
torch_state.sync()
assert torch_state.phase is Phase.TRAIN
print("SAME", flush=True)
"""

BY_VALUE = """
import horovod.torch as hvd
hvd.init()
if hvd.rank() == 0:
    def make():
        class Local:
            value = 5
        return Local
    sent = [make(), make()(), lambda: 7]
received = hvd.broadcast_object(sent if hvd.rank() == 0 else None, 0)
assert received[0].value == 5 and type(received[1]).value == 5 and received[2]() == 7
print("SENT", flush=True)
"""

# The class and the function exist on rank 0 only, as those of another script do.
ON_ONE_RANK = """
import horovod.torch as hvd
hvd.init()
sent = None
if hvd.rank() == 0:
    class Config:
        rate = 0.5
        def twice(self):
            return scaled(self.rate)
    def scaled(x):
        return 2 * x
    sent = (Config, Config(), scaled)
of_class, config, function = hvd.broadcast_object(sent, 0)
assert type(config) is of_class and config.twice() == 1.0 and function(4) == 8
if hvd.rank() == 0:
    assert of_class is Config and function is scaled
state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, config=config if hvd.rank() == 0 else None)
state.sync()
assert state.config.twice() == 1.0
print("SENT", flush=True)
"""


def test_objects_are_of_the_scripts_own_classes_on_every_rank(tmp_path: Path) -> None:
    done = run_script(2, tmp_path, CLASSES + OPERATIONS)
    assert done.returncode == 0 and done.stdout.count("SAME") == 2, done.stdout


@pytest.mark.slow
def test_classes_and_functions_without_a_name_are_sent_by_value(tmp_path: Path) -> None:
    done = run_script(2, tmp_path, BY_VALUE)
    assert done.returncode == 0 and done.stdout.count("SENT") == 2, done.stdout


def test_classes_and_functions_that_only_the_sender_has_are_sent_by_value(tmp_path: Path) -> None:
    done = run_script(2, tmp_path, ON_ONE_RANK)
    assert done.returncode == 0 and done.stdout.count("SENT") == 2, done.stdout
