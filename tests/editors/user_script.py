# pyright: basic, reportUnnecessaryTypeIgnoreComment=true
"""A user's elastic training script. Type checkers must find no error in it but those that comments ignore at its end:
a comment that ignores no error is an error itself."""

import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.compression import Compression
from horovod.torch.elastic import ElasticSampler, TorchState
from horovod.torch.mpi_ops import allgather_async
from typing_extensions import assert_type

hvd.init()
rank: int = hvd.rank()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
wrapped = hvd.DistributedOptimizer(
    optimizer, named_parameters=model.named_parameters(), compression=Compression.fp16, op=hvd.Average
)
wrapped.set_backward_passes_per_step(2)
wrapped.synchronize()
with wrapped.skip_synchronize():
    wrapped.step()
plain: torch.optim.SGD = wrapped  # it is an instance of the wrapped class too
# Scripts usually assign the wrapper to the name of the wrapped optimizer.
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
optimizer.step()

hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
assert_type(hvd.allreduce(torch.ones(3), name="x", op=hvd.Sum), torch.Tensor)
assert_type(allgather_async(torch.ones(3)), int)
assert_type(hvd.size(), int)
evens = hvd.add_process_set([0])
assert_type(evens, hvd.ProcessSet)


@hvd.elastic.run
def train(state: hvd.elastic.TorchState, epochs: int, rate: float = 0.1) -> float:
    state.epoch += 1
    state.best_loss = rate
    state.commit()
    return float(epochs)


sampler = ElasticSampler([1, 2, 3])
state = TorchState(model, wrapped, sampler=sampler, epoch=0)
state.register_reset_callbacks([lambda: None])
assert_type(train(state, 3, rate=0.5), float)
try:
    train(state, 1)
except HorovodInternalError as problem:
    print(problem)


def calls_that_are_wrong() -> None:
    hvd.allreduce("x")  # type: ignore[arg-type]
    hvd.allreduce(torch.ones(1), reduction=1)  # type: ignore[call-arg]
    hvd.no_such_name()  # type: ignore[attr-defined]
    wrapped.set_backward_passes_per_step("2")  # type: ignore[arg-type]
    train(state, "3")  # type: ignore[arg-type]
    train(state)  # type: ignore[call-arg]
