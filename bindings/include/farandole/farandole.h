/* Farandole for programs that embed it through C: services written in C, Go, Rust, Julia, … that run collective
 * operations across a group of processes. A runtime is one member of one job. There are no globals, so several
 * runtimes (of several jobs) may live in one process. farandole.hpp is the same interface with C++ types.
 *
 * Threads.   Every call may be made from any thread, also concurrently on one runtime or one handle. The exceptions
 *            are the calls that end an object: after farandole_free() and farandole_release() no thread may use it.
 * Memory.    The library copies names, settings, shapes and secrets; the caller may free them when the call returns.
 *            Buffers are not copied: `input` is read and `output` written until the operation has settled, in GPU memory
 *            until it is released (farandole_released()). Both are contiguous, row-major memory, aligned to their element: of the host, or of a GPU (farandole_submission.device).
 * Errors.    No function throws. A function that can fail returns a farandole_status, which says what to do, and
 *            writes the status and a text for people to the farandole_error that the caller passes. The caller may
 *            pass NULL.
 * Deadlines. Every wait is bounded except farandole_wait() with a timeout of -1, and that one also ends when a member
 *            dies: the operation then fails. The deadlines of the runtime are settings; see docs/settings.md.
 * Signals.   The library installs no signal handlers.
 * Forks.     A forked child is not a member: its submissions fail, operations in flight have ended with an error
 *            there, and farandole_alive() returns 0. Start other programs with exec.
 *
 * C99 and C++. All functions begin with farandole_, all constants with FARANDOLE_; numbers never change. */
#ifndef FARANDOLE_H
#define FARANDOLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FARANDOLE_API __attribute__((visibility("default")))

/* ---- Errors ---- */

typedef enum farandole_status {
  FARANDOLE_OK = 0,
  FARANDOLE_PRECONDITION = 1,     /* called too early or in the wrong process: report it to the user */
  FARANDOLE_INVALID_ARGUMENT = 2, /* an argument of this caller is wrong: report it to the user */
  FARANDOLE_UNKNOWN = 3,          /* a layer below the runtime failed: report it to the user */
  FARANDOLE_ABORTED = 4,          /* the operation was cancelled, or its process set removed */
  FARANDOLE_DISCONNECTED = 5,     /* a member was lost: free this runtime and start a new one */
  FARANDOLE_OVERLOADED = 6,       /* a queue is full: wait for some operations, then retry */
  FARANDOLE_UNIMPLEMENTED = 7,    /* not supported for these arguments */
  FARANDOLE_TIMED_OUT = 8,        /* a deadline passed; the text names it */
  FARANDOLE_DISMISSED = 9, /* the elastic job goes on without this process, as planned: exit normally */
  FARANDOLE_MISMATCH = 10, /* ranks submitted different requests under one name: report it to the user */
  FARANDOLE_SHUT_DOWN = 11 /* this member or another one has shut the job down */
} farandole_status;

#define FARANDOLE_TEXT_BYTES 1024

typedef struct farandole_error {
  farandole_status status;
  /* UTF-8, terminated by 0, truncated if longer; names the tensor, the ranks and both values. */
  char text[FARANDOLE_TEXT_BYTES];
} farandole_error;

/* ---- The life of a member ---- */

typedef struct farandole_runtime farandole_runtime;

typedef struct farandole_setting {
  const char* name;  /* of the environment variable: "HOROVOD_RANK" */
  const char* value; /* as in the environment: "3" */
} farandole_setting;

/* A group of processes that run operations among themselves, by their global ranks in any order. */
typedef struct farandole_process_set {
  const int32_t* ranks;
  size_t rank_count;
} farandole_process_set;

typedef struct farandole_options {
  const farandole_setting* settings; /* take precedence over the environment; NULL if there are none */
  size_t setting_count;
  int read_environment; /* whether the environment of the process is read too */
  const void* secret;   /* of the job; NULL: read from FARANDOLE_SECRET_FD or FARANDOLE_SECRET_FILE */
  size_t secret_bytes;
  /* Exist from the start, with numbers from 1. Every member must name the same ones, or no member starts. NULL if
   * there are none. */
  const farandole_process_set* process_sets;
  size_t process_set_count;
  /* Elastic jobs. After the loss of a member each survivor frees its runtime, restores its last committed state and
   * starts a new runtime with these three values; a new process leaves them 0. */
  uint64_t progress; /* any number that changes with each commit of the state. Members with different numbers
                                must synchronise their state; see farandole_must_sync() */
  uint64_t
      state_generation; /* the farandole_generation() in which this process last had the state of the job */
  uint64_t epoch; /* the farandole_epoch() of this process's last runtime: fences a replaced rendezvous */
} farandole_options;

/* For a process that horovodrun started. */
#define FARANDOLE_OPTIONS_INIT                                                                               \
  { NULL, 0, 1, NULL, 0, NULL, 0, 0, 0, 0 }

/* Joins the job that the settings name; a job of one process if they name none. Returns when this member's connections
 * are up; blocks at most the start timeout, in an elastic job the elastic timeout. `options` may be NULL:
 * FARANDOLE_OPTIONS_INIT. On success the caller owns *runtime and frees it with farandole_free(); otherwise it is
 * NULL. */
FARANDOLE_API farandole_status farandole_start(const farandole_options* options, farandole_runtime** runtime,
                                               farandole_error* reason);

/* Leaves in order: operations that are scheduled complete; all others fail FARANDOLE_SHUT_DOWN, here and on the other
 * members, whose job ends too. Blocks at most the shutdown timeout. Idempotent. The runtime must still be freed. */
FARANDOLE_API void farandole_shutdown(farandole_runtime* runtime);

/* Shuts down if necessary, and frees. Handles stay valid: their operations have settled. NULL is allowed. */
FARANDOLE_API void farandole_free(farandole_runtime* runtime);

/* 1 as long as operations can be submitted; 0 once the job has ended for any reason, and in a forked child. */
FARANDOLE_API int farandole_alive(const farandole_runtime* runtime);

/* Constant for the life of a runtime. Ranks count from 0. A local rank counts the members on this host, a cross rank
 * the members that have the same local rank on their hosts. */
FARANDOLE_API int32_t farandole_rank(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_size(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_local_rank(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_local_size(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_cross_rank(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_cross_size(const farandole_runtime* runtime);
/* 1 if every host has the same local size. */
FARANDOLE_API int farandole_is_homogeneous(const farandole_runtime* runtime);

/* ---- Timeline ---- */

/* Writes a timeline of the operations to this file from now on, in the Chrome trace format; see docs/guides/timeline.md.
 * Rank 0 writes it, and nothing happens on other ranks, so all members may make the same call. The file that was written
 * before is completed first, unless it has the same path: then nothing changes. Problems with the file are logged, and
 * the job goes on. `mark_cycles`: 1 if the file is to show when fused operations start. FARANDOLE_INVALID_ARGUMENT if
 * HOROVOD_TIMELINE was not set when the runtime started; DYNAMIC writes nothing until this call. */
FARANDOLE_API farandole_status farandole_start_timeline(farandole_runtime* runtime, const char* path,
                                                        int mark_cycles, farandole_error* reason);
/* Completes the file: it has all operations that ended before the call. */
FARANDOLE_API farandole_status farandole_stop_timeline(farandole_runtime* runtime, farandole_error* reason);

/* ---- Steps ---- */

/* Records that a training step ends here: `farandole report` divides the time of this rank at these calls. Every rank
 * must mark the same steps. Costs a few nanoseconds. Without a call, the report finds the steps by the names of tensors
 * that recur. See docs/guides/report.md. */
FARANDOLE_API farandole_status farandole_mark_step(farandole_runtime* runtime, farandole_error* reason);

/* ---- Stalls ---- */

/* Waits for the next report of tensors that some ranks have submitted and others have not for longer than the stall
 * warning time; see docs/guides/stalls.md. All members receive it. Writes its text to `text` (UTF-8, terminated by 0,
 * truncated if it is longer than `capacity` bytes, which must not be 0), and to *over 1 if it says that the stall is over.
 * Waits at most timeout_ms; -1: until this member leaves. FARANDOLE_TIMED_OUT if there was no report;
 * FARANDOLE_SHUT_DOWN after farandole_shutdown(). Reports from before the first call are not kept, and of later ones only
 * the last 16. */
FARANDOLE_API farandole_status farandole_next_stall(farandole_runtime* runtime, int64_t timeout_ms,
                                                    char* text, size_t capacity, int* over,
                                                    farandole_error* reason);

/* ---- Elastic jobs ---- */

/* The generation of the job, from 1: each change of membership begins a new one. A runtime lives in one. */
FARANDOLE_API uint64_t farandole_generation(const farandole_runtime* runtime);

/* The highest epoch of a rendezvous that this process has accepted; see farandole_options.epoch. */
FARANDOLE_API uint64_t farandole_epoch(const farandole_runtime* runtime);

/* 1 if the members may start from different states, so that they must broadcast it first, as in the first generation.
 * The same on all members. */
FARANDOLE_API int farandole_must_sync(const farandole_runtime* runtime);

/* 1 if the job ran without this process before. */
FARANDOLE_API int farandole_joined_late(const farandole_runtime* runtime);

/* Writes to *changes how many changes of membership wait for all members to leave this generation (0: none), and to
 * *removals_only 1 if all of them are removals. Members may learn of a change at different times. Never blocks. */
FARANDOLE_API void farandole_membership_change(const farandole_runtime* runtime, uint64_t* changes,
                                               int* removals_only);

/* Requests the planned removal of this process, as if discovery had removed its host. All members learn of it by
 * farandole_membership_change(). Returns when this member has learnt of it, or after a bounded wait if the rendezvous
 * cannot be reached. */
FARANDOLE_API void farandole_withdraw(farandole_runtime* runtime);

/* ---- Operations ---- */

typedef enum farandole_operation {
  /* output = postscale * reduction over ranks of (prescale * input); the same shape on all ranks. */
  FARANDOLE_ALLREDUCE = 0,
  /* The inputs of all ranks, concatenated along the first dimension, in which alone they may differ. */
  FARANDOLE_ALLGATHER = 1,
  /* output = the root's input; the same shape on all ranks. */
  FARANDOLE_BROADCAST = 2,
  /* Settles when every member has submitted it; no tensor. */
  FARANDOLE_BARRIER = 3,
  /* This member has no more data: it contributes zeros until all members have joined; no tensor. */
  FARANDOLE_JOIN = 4,
  /* Sends rows to each rank; the result is the rows received from each rank, concatenated in rank order. */
  FARANDOLE_ALLTOALL = 5,
  /* As allreduce, but each member receives its own segment of the rows only: of d rows, d / size, and one more on the
   * first d % size ranks. Not with FARANDOLE_ADASUM. */
  FARANDOLE_REDUCESCATTER = 6
} farandole_operation;

typedef enum farandole_dtype {
  FARANDOLE_UINT8 = 0,
  FARANDOLE_INT8 = 1,
  FARANDOLE_UINT16 = 2,
  FARANDOLE_INT16 = 3,
  FARANDOLE_INT32 = 4,
  FARANDOLE_INT64 = 5,
  FARANDOLE_FLOAT16 = 6,  /* IEEE 754 binary16 */
  FARANDOLE_BFLOAT16 = 7, /* the upper half of a float32 */
  FARANDOLE_FLOAT32 = 8,
  FARANDOLE_FLOAT64 = 9,
  FARANDOLE_BOOL = 10 /* one byte, 0 or 1; cannot be reduced */
} farandole_dtype;

typedef enum farandole_reduce_op {
  FARANDOLE_AVERAGE = 0,
  FARANDOLE_SUM = 1,
  FARANDOLE_ADASUM = 2,
  FARANDOLE_MIN = 3,
  FARANDOLE_MAX = 4,
  FARANDOLE_PRODUCT = 5
} farandole_reduce_op;

/* How the caller will learn that an operation has completed. A hint that selects how the tensor is exchanged: with any
 * value the caller may wait and may register a callback. */
typedef enum farandole_completion_mode {
  FARANDOLE_COMPLETION_ANY = 0, /* it waits later, or registers a callback */
  FARANDOLE_COMPLETION_WAIT =
      1, /* the submitting thread waits at once, and may move the bytes while it does */
  FARANDOLE_COMPLETION_CALLBACK = 2 /* by a callback only; if one member says so, it holds for all */
} farandole_completion_mode;

/* When the bytes of a tensor in GPU memory are ready. */
typedef enum farandole_readiness {
  FARANDOLE_READY_ON_STREAM = 0, /* once the submission's stream has done the work that it was given so far */
  FARANDOLE_READY_NOW = 1,
  /* once all streams of the GPU's primary context have done the work that they were given so far; needs a driver for
   * CUDA 12.5 or later */
  FARANDOLE_READY_IN_CONTEXT = 2
} farandole_readiness;

/* One tensor and what to do with it. All members must submit equal names, operations, dtypes, reductions, scales,
 * roots and (except for the first extents of allgather and alltoall) shapes; the order of submission may differ
 * between members. If they disagree, the operation fails FARANDOLE_MISMATCH on all members and the job goes on.
 * Initialise it with FARANDOLE_SUBMISSION_INIT: a scale of 0 multiplies by 0. */
typedef struct farandole_submission {
  size_t bytes; /* of this struct: what FARANDOLE_SUBMISSION_INIT says. Later versions append members */
  const char*
      name; /* not empty; unique among the operations in flight in the set. Recurring names are fastest */
  int32_t operation;    /* a farandole_operation */
  int32_t dtype;        /* a farandole_dtype */
  int32_t reduce_op;    /* a farandole_reduce_op; allreduce and reducescatter only */
  int32_t root;         /* broadcast: the global rank of the source, in every set; otherwise -1 */
  double prescale;      /* allreduce and reducescatter only */
  double postscale;     /* allreduce and reducescatter only */
  const int64_t* shape; /* extents in elements, outermost first; NULL for a scalar */
  size_t dimensions;    /* 0: a scalar, one element */
  const void* input;    /* NULL only if there are no elements, and for barrier and join */
  /* As large as `input`, which it may equal. Unused (NULL) for allgather, alltoall, barrier and join. reducescatter:
   * as large as the own segment, not overlapping `input`, or NULL: the library then allocates the result. */
  void* output;
  uint32_t set; /* process set; 0 is the global one */
  /* alltoall: the number of rows for each rank of the set, in rank order, with the first extent as their sum. Ranks
   * may differ. Copied. */
  const int64_t* splits;
  size_t split_count;      /* the size of the set, or 0: equal parts */
  int32_t completion_mode; /* a farandole_completion_mode */
  /* The GPU in whose memory `input` and `output` are, by its number for CUDA's driver in this process; -1: host memory.
   * All members must submit the tensor from host memory, or all from GPU memory; the numbers may differ. `output` is
   * complete, and the buffers are no longer in use, when farandole_wait() returns FARANDOLE_OK or farandole_released() returns
   * 1, which may be after the operation has settled. Results that the library allocates are in host memory. */
  int32_t device;
  void*
      stream; /* a CUstream of the GPU; NULL: its default stream. Not used later: it may be destroyed at once */
  int32_t readiness; /* a farandole_readiness */
} farandole_submission;

#define FARANDOLE_SUBMISSION_INIT                                                                            \
  {                                                                                                          \
    sizeof(farandole_submission), NULL, FARANDOLE_ALLREDUCE, FARANDOLE_FLOAT32, FARANDOLE_SUM, -1, 1.0, 1.0, \
        NULL, 0, NULL, NULL, 0, NULL, 0, FARANDOLE_COMPLETION_ANY, -1, NULL, FARANDOLE_READY_ON_STREAM       \
  }

/* One operation in flight, or its result. */
typedef struct farandole_handle farandole_handle;

/* Submits one tensor; does not wait. On success the caller owns *handle and gives it to farandole_release().
 * FARANDOLE_INVALID_ARGUMENT for a name in flight, an unknown set, a bad root, shape or number, or splits whose sum is
 * not the first extent; FARANDOLE_ABORTED for reducescatter with Adasum; FARANDOLE_OVERLOADED if too many operations
 * are in flight; FARANDOLE_SHUT_DOWN if the job has ended. */
FARANDOLE_API farandole_status farandole_submit(farandole_runtime* runtime, const farandole_submission* value,
                                                farandole_handle** handle, farandole_error* reason);

/* Submits `count` tensors that become ready together, all or none, in one process set; writes `count` handles. No output
 * may overlap the memory of another tensor. */
FARANDOLE_API farandole_status farandole_submit_group(farandole_runtime* runtime,
                                                      const farandole_submission* value, size_t count,
                                                      farandole_handle** handles, farandole_error* reason);

/* Adds or removes a process set. Collective: every member of the job makes the same call, whether it is in the set or
 * not, and waits for the others. If they differ, or the set is invalid, all receive FARANDOLE_INVALID_ARGUMENT, nothing
 * changes and the job goes on. Requires HOROVOD_DYNAMIC_PROCESS_SETS. Operations pending in a removed set fail
 * FARANDOLE_ABORTED; its number may be reused by a later set. */
FARANDOLE_API farandole_status farandole_add_process_set(farandole_runtime* runtime,
                                                         const farandole_process_set* process_set,
                                                         uint32_t* set, farandole_error* reason);
FARANDOLE_API farandole_status farandole_remove_process_set(farandole_runtime* runtime, uint32_t set,
                                                            farandole_error* reason);

/* The current process sets, ascending, with the global one (0), and the global ranks of one of them, ascending. Both
 * write at most `capacity` numbers, and the total to *count: call with 0 (the array may then be NULL), allocate, and
 * call again. FARANDOLE_INVALID_ARGUMENT for an unknown set. */
FARANDOLE_API farandole_status farandole_list_process_sets(const farandole_runtime* runtime, uint32_t* sets,
                                                           size_t capacity, size_t* count,
                                                           farandole_error* reason);
FARANDOLE_API farandole_status farandole_list_ranks(const farandole_runtime* runtime, uint32_t set,
                                                    int32_t* ranks, size_t capacity, size_t* count,
                                                    farandole_error* reason);

/* 1 if the operation has ended, with success or not; its GPU may still work on it. Never blocks. */
FARANDOLE_API int farandole_poll(const farandole_handle* handle);

/* 1 if the operation has ended and its buffers are no longer in use. Never blocks. */
FARANDOLE_API int farandole_released(const farandole_handle* handle);

/* Waits until the operation has ended and returns its status; a timeout of -1 waits without a deadline. If `timeout_ms`
 * milliseconds pass first, FARANDOLE_TIMED_OUT: the operation goes on, its buffers stay in use and it can be waited for
 * again. (An operation itself can also end FARANDOLE_TIMED_OUT; farandole_poll() then returns 1.) */
FARANDOLE_API farandole_status farandole_wait(const farandole_handle* handle, int64_t timeout_ms,
                                              farandole_error* reason);

/* For a tensor in GPU memory: as farandole_wait(), but instead of this thread, the work that `stream` (a CUstream of the
 * same GPU; NULL: the default stream) is given from now on waits for the GPU to finish the operation. With the setting
 * HOROVOD_ENABLE_ASYNC_COMPLETION, which is on in jobs of fixed size, this thread waits only until the GPU has been given
 * all work of the operation. For a tensor in host memory: farandole_wait(). */
FARANDOLE_API farandole_status farandole_wait_on_stream(const farandole_handle* handle, void* stream,
                                                        int64_t timeout_ms, farandole_error* reason);

typedef struct farandole_result {
  /* allgather: the concatenation; alltoall: the rows received from each rank, concatenated; reducescatter without an
   * output of the caller: the own segment. */
  const void* bytes;
  size_t byte_count;
  /* allgather: the first extent of each rank's input; alltoall: the number of rows received from each rank;
   * reducescatter: one number, the rows of the own segment. */
  const int64_t* first_dims;
  size_t first_dim_count;
  int32_t last_rank; /* join: the rank that joined last; otherwise -1 */
} farandole_result;

/* The result of an operation beyond the caller's `output`. The handle owns the memory until it is released.
 * FARANDOLE_PRECONDITION while the operation has not settled; its own error if it failed. */
FARANDOLE_API farandole_status farandole_get_result(const farandole_handle* handle, farandole_result* result,
                                                    farandole_error* reason);

/* Calls `callback(context)` once, when the operation has settled: at once if it already has, otherwise on the thread
 * that settles it, which is a thread of the runtime or one that polls or waits. The callback must not block and must
 * not free the runtime. A second callback on one handle fails with FARANDOLE_INVALID_ARGUMENT.
 *
 * A small tensor with a recurring name is exchanged through shared memory among members of one host, without the
 * threads of the runtime. With a callback, the event loop polls it: shortly after it was submitted, then once a
 * millisecond. */
FARANDOLE_API farandole_status farandole_on_settled(farandole_handle* handle, void (*callback)(void* context),
                                                    void* context, farandole_error* reason);

/* Cancels the operation unless it has been scheduled; it then ends FARANDOLE_ABORTED on all members. Returns at once:
 * wait for the handle before you reuse its buffers. */
FARANDOLE_API void farandole_cancel(farandole_handle* handle);

/* Releases the handle. An operation in flight goes on and keeps using its buffers, so wait for it first, or learn of
 * its end by a callback; for buffers in GPU memory, call farandole_wait() or farandole_released(). NULL is allowed. */
FARANDOLE_API void farandole_release(farandole_handle* handle);

#undef FARANDOLE_API

#ifdef __cplusplus
}
#endif

#endif
