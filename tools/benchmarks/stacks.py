"""One class for each library, which carries out works by the library's functions. Runs inside the workers only.

Imports are inside the classes, because a worker must not load a library that it does not measure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.works import Work, named_tensors

Tensors = list[Any]
Verbs = dict[str, Callable[[Any], Any]]


class Stack:
    """The interface to a library: joins the job, and makes functions that carry out a work on given tensors."""

    def load(self) -> None:
        """Imports the library."""
        raise NotImplementedError

    def start(self) -> None:
        """Joins the job."""
        raise NotImplementedError

    def rank(self) -> int:
        raise NotImplementedError

    def size(self) -> int:
        raise NotImplementedError

    def ready(self, work: Work, tensors: Tensors) -> Callable[[], Tensors]:
        """A function that carries out the work once and returns the results. This call makes preparations that are
        needed only once, so that they are not measured."""
        if len(tensors) > 1:
            return self.several(work, tensors)
        do, tensor = self.single(work), tensors[0]
        return lambda: [do(tensor)]

    def single(self, work: Work) -> Callable[[Any], Any]:
        """The work's synchronous operation on one tensor. If it is not in place, each call allocates its output."""
        raise NotImplementedError

    def several(self, work: Work, tensors: Tensors) -> Callable[[], Tensors]:
        """A function that sums several tensors over all ranks, in place."""
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


class HorovodInterface(Stack):
    """Farandole and Horovod, through their common interface: tensors are submitted one by one."""

    def load(self) -> None:
        import horovod.torch as hvd

        self.hvd: Any = hvd

    def start(self) -> None:
        self.hvd.init()

    def rank(self) -> int:
        return int(self.hvd.rank())

    def size(self) -> int:
        return int(self.hvd.size())

    def single(self, work: Work) -> Callable[[Any], Any]:
        hvd, name = self.hvd, work.name
        verbs: Verbs = {
            "allreduce": lambda tensor: hvd.allreduce_(tensor, name=name, op=hvd.Sum),
            "allgather": lambda tensor: hvd.allgather(tensor, name=name),
            "alltoall": lambda tensor: hvd.alltoall(tensor, name=name),
            "broadcast": lambda tensor: hvd.broadcast_(tensor, 0, name=name),
            "reducescatter": lambda tensor: hvd.reducescatter(tensor, name=name, op=hvd.Sum),
        }
        return verbs[work.operation]

    def several(self, work: Work, tensors: Tensors) -> Callable[[], Tensors]:
        hvd = self.hvd
        named = named_tensors(work, tensors)

        def one_by_one() -> Tensors:
            handles = [hvd.allreduce_async_(tensor, name=name, op=hvd.Sum) for tensor, name in named]
            for handle in handles:
                hvd.synchronize(handle)
            return tensors

        return one_by_one

    def stop(self) -> None:
        self.hvd.shutdown()


class Gloo(Stack):
    """torch.distributed over Gloo, with its rendezvous variables in the environment."""

    def load(self) -> None:
        import torch.distributed as dist

        self.dist: Any = dist

    def start(self) -> None:
        self.dist.init_process_group("gloo")

    def rank(self) -> int:
        return int(self.dist.get_rank())

    def size(self) -> int:
        return int(self.dist.get_world_size())

    def single(self, work: Work) -> Callable[[Any], Any]:
        dist, size = self.dist, self.size()

        def into(output: Any, collective: Callable[[Any, Any], Any], tensor: Any) -> Any:
            collective(output, tensor)
            return output

        def in_place(collective: Callable[[Any], Any], tensor: Any) -> Any:
            collective(tensor)
            return tensor

        verbs: Verbs = {
            "allreduce": lambda tensor: in_place(dist.all_reduce, tensor),
            "allgather": lambda tensor: into(
                tensor.new_empty(size * tensor.numel()), dist.all_gather_into_tensor, tensor
            ),
            "alltoall": lambda tensor: into(tensor.new_empty(tensor.numel()), dist.all_to_all_single, tensor),
            "broadcast": lambda tensor: in_place(lambda each: dist.broadcast(each, 0), tensor),
            "reducescatter": lambda tensor: into(
                tensor.new_empty(tensor.numel() // size), dist.reduce_scatter_tensor, tensor
            ),
        }
        return verbs[work.operation]

    def several(self, work: Work, tensors: Tensors) -> Callable[[], Tensors]:
        dist = self.dist
        if work.bucket_bytes:
            return self.in_buckets(work, tensors)

        def one_by_one() -> Tensors:
            pending = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
            for each in pending:
                each.wait()
            return tensors

        return one_by_one

    def in_buckets(self, work: Work, tensors: Tensors) -> Callable[[], Tensors]:
        dist = self.dist
        packed = buckets(tensors, work.bucket_bytes)

        def each_bucket() -> Tensors:
            pending = []
            for flat, views, members in packed:
                copy_all(views, members)
                pending.append(dist.all_reduce(flat, async_op=True))
            for handle, (_, views, members) in zip(pending, packed):
                handle.wait()
                copy_all(members, views)
            return tensors

        return each_bucket

    def stop(self) -> None:
        self.dist.destroy_process_group()


class Mpi4py(Stack):
    """MPI's own allreduce in place; several tensors are packed by hand into one buffer."""

    def load(self) -> None:
        import mpi4py

        mpi4py.rc.finalize = False

    def start(self) -> None:
        from mpi4py import MPI

        self.mpi: Any = MPI
        self.world: Any = MPI.COMM_WORLD

    def rank(self) -> int:
        return int(self.world.Get_rank())

    def size(self) -> int:
        return int(self.world.Get_size())

    def single(self, work: Work) -> Callable[[Any], Any]:
        world, size, kept = self.world, self.size(), self.mpi.IN_PLACE

        def into(length: int, collective: Callable[[Any, Any], Any], tensor: Any) -> Any:
            output = tensor.new_empty(length)
            collective(tensor.numpy(), output.numpy())
            return output

        def in_place(collective: Callable[[Any], Any], tensor: Any) -> Any:
            collective(tensor.numpy())
            return tensor

        verbs: Verbs = {
            "allreduce": lambda tensor: in_place(lambda array: world.Allreduce(kept, array), tensor),
            "allgather": lambda tensor: into(size * tensor.numel(), world.Allgather, tensor),
            "alltoall": lambda tensor: into(tensor.numel(), world.Alltoall, tensor),
            "broadcast": lambda tensor: in_place(world.Bcast, tensor),
            "reducescatter": lambda tensor: into(tensor.numel() // size, world.Reduce_scatter_block, tensor),
        }
        return verbs[work.operation]

    def several(self, work: Work, tensors: Tensors) -> Callable[[], Tensors]:
        world, in_place = self.world, self.mpi.IN_PLACE
        ((flat, views, members),) = buckets(tensors, work.bytes)
        array = flat.numpy()

        def packed() -> Tensors:
            copy_all(views, members)
            world.Allreduce(in_place, array)
            copy_all(members, views)
            return tensors

        return packed

    def stop(self) -> None:
        self.mpi.Finalize()


def buckets(tensors: Tensors, limit_bytes: int) -> list[tuple[Any, Tensors, Tensors]]:
    """Packs tensors into buckets of at most `limit_bytes`: (flat buffer, views of it by member, members) for each."""
    import torch

    groups: list[Tensors] = [[]]
    filled = 0
    for tensor in tensors:
        size = 4 * tensor.numel()
        if groups[-1] and filled + size > limit_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(tensor)
        filled += size
    packed = []
    for group in groups:
        flat = torch.zeros(sum(tensor.numel() for tensor in group), device=group[0].device)
        packed.append((flat, list(flat.split([tensor.numel() for tensor in group])), group))
    return packed


def copy_all(targets: Tensors, sources: Tensors) -> None:
    """Copies in one call, because the time of a Python loop over a thousand copies would dominate the measurement."""
    import torch

    torch._foreach_copy_(targets, sources)


def stack_named(name: str) -> Stack:
    """The stack of a group's name. Words behind the library, as in `farandole without fast path`, denote other
    settings."""
    library = name.split()[0]
    classes = {"farandole": HorovodInterface, "horovod": HorovodInterface, "gloo": Gloo, "mpi4py": Mpi4py}
    return classes[library]()
