# Made by bindings/python/stubs_check.py --write from the code; not edited by hand.
"""The native module that connects Python to Farandole's core."""

from collections.abc import Mapping, Sequence

class Request:
    """
    The description of a call without its tensors; created once and reused. With `waits` the caller waits at once, and may then move the bytes itself.
    """

    def __init__(
        self,
        operation: int,
        prefix: str,
        reduce_op: int = 1,
        root: int = -1,
        prescale: float = 1.0,
        postscale: float = 1.0,
        waits: bool = False,
    ) -> None: ...
    @property
    def prefix(self) -> str:
        """Prefix of names: the operation, as callers know it."""

    @property
    def waits(self) -> bool:
        """Whether the caller waits at once."""

class Handle:
    """One operation in flight; keeps its arrays until it is settled."""

    @property
    def number(self) -> int:
        """The call's number in this process."""

    def settled(self) -> bool:
        """Whether it has ended, well or not. Never blocks."""

    def wait(self) -> None:
        """Waits without the GIL; raises the error of the operation."""

    def wait_for(self, seconds: float) -> None:
        """
        Like wait(), for at most this many seconds; then raises that it has timed out, and the operation goes on.
        """

    def cancel(self) -> None:
        """
        Withdraws it on all ranks, unless it has been scheduled; it then ends `aborted`.
        """

    def finish(self) -> object:
        """Waits, then gives the array that was given as output."""

    @property
    def output(self) -> object:
        """The array given as output."""

    def dlpack(self) -> object:
        """The result that the core allocated, as a DLPack capsule."""

    def array(self) -> object:
        """
        The result that the core allocated, as a NumPy array; bfloat16 as uint16.
        """

    @property
    def first_dims(self) -> tuple:
        """
        Rows that each rank brought to an allgather, or that came from each by an alltoall; of a reducescatter, those of this rank's segment.
        """

    @property
    def has_result(self) -> bool:
        """False if no rank has contributed."""

    @property
    def has_rows(self) -> bool:
        """
        Whether this rank was absent, and the others gathered other rows than it asked for: see dlpack().
        """

    @property
    def last_rank(self) -> int:
        """The rank that joined last."""

def wait_all(handles: list) -> None:
    """Waits for all; raises the error of the first that failed."""

class Runtime:
    """One member of one job."""

    @staticmethod
    def start(
        settings: Mapping[str, str] = {},
        read_environment: bool = True,
        secret: str = "",
        process_sets: Sequence[Sequence[int]] = [],
        mpi_ranks: Sequence[int] = [],
        progress: int = 0,
        set_rules: list = [],
        sets_before: Sequence[tuple[int, bool, int, int, Sequence[int]]] | None = None,
        epoch: int = 0,
        state_generation: int = 0,
    ) -> Runtime:
        """Joins the job that the settings and the environment name."""

    def shutdown(self, script_ended: bool = False, exception: str = "", code: int = 0) -> None:
        """
        Leaves in order, and tells the other members how: by a call of shutdown(), by the end of the script, by an uncaught exception, which is given as text, or with an exit code other than 0, with the reason that the script gave as text.
        """

    def open_to_kernels(self) -> None:
        """
        Kernels of frameworks submit to this job from now on, until it is shut down.
        """

    @property
    def alive(self) -> bool: ...
    @property
    def usable_here(self) -> bool: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def local_rank(self) -> int: ...
    @property
    def local_size(self) -> int: ...
    @property
    def cross_rank(self) -> int: ...
    @property
    def cross_size(self) -> int: ...
    @property
    def is_homogeneous(self) -> bool: ...
    @property
    def generation(self) -> int:
        """Counts memberships of the job, from 1."""

    @property
    def object_key(self) -> bytes:
        """
        32 bytes for tags of objects; empty if the data path authenticates its messages.
        """

    @property
    def slots(self) -> list[int]:
        """Where the launcher put each rank; unlike ranks, slots stay."""

    @property
    def epoch(self) -> int:
        """The highest epoch of a rendezvous that this process has obeyed."""

    @property
    def must_sync(self) -> bool:
        """Whether members are at different steps; the same on all of them."""

    @property
    def joined_late(self) -> bool:
        """Whether the job has run without this process."""

    def membership_change(self) -> tuple[int, bool]:
        """
        How many changes of the members wait for all to leave this generation, and whether all are removals. Never blocks.
        """

    def withdraw(self) -> None:
        """
        Announces to all members that this process will leave, as if its host were removed. Returns once this process has heard of it, or a moment later if the rendezvous is away.
        """

    def await_loop(self, late: bool) -> None:
        """
        Until enter_loop(), operations fail if this process has joined late; otherwise rank 0 logs a warning at the first one. To be called once.
        """

    def enter_loop(self) -> None: ...
    def start_timeline(self, path: str, mark_cycles: bool = False) -> None:
        """
        Writes a timeline to this file from now on, on rank 0 only; completes the one before first.
        """

    def stop_timeline(self) -> None:
        """Completes the file."""

    def mark_step(self) -> None:
        """Records that a training step ends here."""

    def wait_for_devices(self) -> None:
        """
        Waits until GPUs have done all work of operations that are settled; raises the error of one that did not.
        """

    def next_stall(self) -> tuple[str, bool] | None:
        """
        Waits for the next report of a stall: its text, and whether the stall is over. None after shutdown().
        """

    @property
    def has_mpi(self) -> bool: ...
    @property
    def mpi_threads(self) -> bool: ...
    @staticmethod
    def mpi_is_installed() -> bool:
        """Whether jobs may be brought together by MPI here."""

    def add_process_set(self, ranks: Sequence[int]) -> int:
        """Adds a process set on all members at once; gives its number."""

    def remove_process_set(self, set: int) -> None:
        """Removes one on all members at once."""

    def kept_sets(self) -> list[tuple[int, bool, int, int, list[int]]]:
        """
        The value for sets_before in the next generation: (born, by rule, place, number, slots) of each set.
        """

    def process_set_epoch(self, set: int) -> int:
        """
        The number of restarts of this set that callers in this process know of.
        """

    @property
    def joins(self) -> int:
        """
        How many join operations this process has submitted; equal on all ranks between two joins.
        """

    def unnamed(self, set: int, prefix: str) -> str:
        """
        The name for the next call of this kind that has none. It stays the same until accepted_unnamed() records that the call was accepted.
        """

    def accepted_unnamed(self, set: int, prefix: str) -> None:
        """Records that the call that unnamed() named was accepted."""

    def acknowledge_restart(self, set: int, epoch: int) -> None:
        """
        Records that callers in this process have learnt of this many restarts by other means than an error. Waits for at most the start timeout until this member has restarted the set so often, and raises if it has not.
        """

    def submitted(self) -> dict[int, int]:
        """
        How many operations this process has submitted to each of its sets, since the set last started.
        """

    def process_sets(self) -> dict[int, list[int]]:
        """Numbers and global ranks of all process sets."""

    def memory(self, dtype: int, elements: int) -> object:
        """
        Uninitialised memory for this many elements, as a DLPack capsule; large memory was used before, so that its pages are there.
        """

    def counters(self) -> dict:
        """Numbers for people and benchmarks."""

    def submit(
        self,
        request: Request,
        name: object | None,
        input: object | None,
        output: object | None,
        set: object | None,
        splits: object | None = None,
        absent: bool = False,
    ) -> Handle:
        """
        Hands one array in; no name: named after the call; no output: the core allocates; splits: rows of an alltoall for each rank, None for equal parts; absent: this rank contributes nothing.
        """

    def submit_pending(
        self,
        pending_handles: PendingHandles,
        request: Request,
        name: object | None,
        input: object | None,
        output: object | None,
        set: object | None,
    ) -> object:
        """Like submit, but keeps the handle under its number, which it returns."""

    def submit_and_wait(
        self, request: Request, name: object | None, input: object | None, output: object | None, set: object | None
    ) -> object:
        """Like submit, but waits, and returns the output."""

    def submit_group(
        self,
        request: Request,
        name: object | None,
        inputs: list,
        outputs: object | None,
        set: object | None,
        absent: object | None = None,
    ) -> list:
        """
        Hands several arrays in, all or none: (request, name, list of names or None, inputs, outputs or None, set) -> [Handle]. absent: for each, whether this rank contributes nothing.
        """

    def failures(self, request: Request, name: object, set: object | None) -> int:
        """
        How many such operations of this name have failed on all ranks, because these disagreed. The number is the same on all ranks, while none of this name is in flight on this one.
        """

class PendingHandles:
    """Calls by their numbers, until their results are fetched."""

    def __init__(self) -> None: ...
    def add(self, call: object) -> object:
        """Keeps a call under its number, which it returns."""

    def output_of_settled(self, number: object | None) -> object:
        """
        Of an operation that has ended well: forgets it and gives the array that was given as output. NotImplemented for everything else.
        """

    def get(self, number: object | None) -> object:
        """The call with this number, or None."""

    def forget(self, number: object) -> None: ...
    def clear(self) -> None: ...

def devices_are_built_in() -> bool:
    """
    Whether this build can use the memory of CUDA devices, where there is a driver.
    """

def nccl_version() -> int:
    """
    The version code of the NCCL that this process would use, which is loaded; 0 if there is none that this build can use.
    """

def why_no_devices() -> str:
    """
    Why this process cannot use the memory of CUDA devices; empty if it can. Loads the driver.
    """

def expect_children(launcher: int) -> None:
    """
    This process is a member of an elastic job: children that it forks from now on can be guarded.
    """

def catch_termination(launcher: int) -> bool:
    """
    From now on SIGTERM is remembered, unless it has a handler already; whether it is.
    """

def termination_came() -> bool:
    """Whether SIGTERM was remembered."""

def release_termination() -> None:
    """
    Restores the default action of SIGTERM, unless another handler is installed.
    """

def guard_forked_child() -> bool:
    """
    In a forked child: ignores SIGTERM as long as the member is inside of its elastic loop, and ends with its parent then. Whether it does.
    """

def retry_delay_s(failures: int, uniform: float) -> float:
    """
    Seconds to wait before the next try, after so many failures in a row; `uniform`: drawn from [0, 1).
    """

def launched_by_mpi() -> bool:
    """
    Whether mpirun or the like started this process, and no rendezvous is named.
    """

def place_in_environment() -> str:
    """
    The position that launchers assigned to this process, as one text to compare: a process that a member starts inherits it.
    """

def discovery_timeout_s() -> float:
    """How many seconds a discovery script of this process's jobs may run."""

def take_secret_variable() -> None:
    """
    Moves the job's secret from FARANDOLE_SECRET, a variable of this process, into its memory.
    """

def torch_job() -> tuple[int, int, float, str] | None:
    """
    (rank, size, seconds, text) of the job that this process has to join at MASTER_ADDR and MASTER_PORT, and of the start timeout; None where there is no such job.
    """

class StoreMeeting:
    """Where the ranks of a job meet that share a store."""

    @staticmethod
    def hold(store: object, rank: int, size: int, number: int) -> StoreMeeting:
        """
        Waits until all ranks have come. The store has put(name, value), and get(rank, name), which waits for the value.
        """

    def close(self) -> None:
        """
        Ends the rendezvous, which runs on rank 0. Does nothing in a forked child.
        """

    @property
    def ip(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def new_secret(self) -> str:
        """Made for this job; empty: its processes had been given one."""

def kernel_api() -> int:
    """
    Address of the table of functions that kernel libraries connect to (bindings/include/farandole/kernel_api.h).
    """
