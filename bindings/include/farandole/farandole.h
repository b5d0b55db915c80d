/* Farandole for programs that embed it through C: services written in C, Go, Rust, Julia, … that keep a group
 * of processes in step. A runtime is one member of one job. There are no globals, so several runtimes
 * (several jobs) may live in one process.
 *
 * Threads.   Every call may be made from any thread, also on one runtime or one handle at once. The
 * exceptions are the calls that end a thing: after farandole_free() and farandole_release() nobody may use it
 * any more. Memory.    The library copies names, settings, shapes and secrets; they may go when the call
 * returns. Buffers are not copied: `input` is read and `output` written until the operation has settled. Both
 * are contiguous, row-major host memory, aligned to their element. Errors.    Nothing is thrown. Calls that
 * can fail return a farandole_status, which tells the program what to do, and write it, with a text for
 * people, to the farandole_error that the caller gives (NULL: not wanted). Deadlines. Nothing waits for ever
 * but farandole_wait() where -1 asks for it, and even that ends when a member dies: the operation then fails.
 * The runtime's own deadlines are settings; see docs/settings.md. Signals.   The library installs no signal
 * handlers. Its threads are its own. Forks.     A forked child is no member: it can submit nothing, and
 * farandole_alive() answers 0. Start other programs.
 *
 * C99, and C++ as well. All functions begin with farandole_, all constants with FARANDOLE_; numbers never
 * change. */
#ifndef FARANDOLE_H
#define FARANDOLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FARANDOLE_API __attribute__((visibility("default")))

/* ---- Errors
 * ----------------------------------------------------------------------------------------------------- */

typedef enum farandole_status {
  FARANDOLE_OK = 0,
  FARANDOLE_PRECONDITION = 1,     /* it is too early, or the wrong process: tell a human */
  FARANDOLE_INVALID_ARGUMENT = 2, /* this caller's own argument is wrong: tell a human */
  FARANDOLE_UNKNOWN = 3,          /* something beneath the runtime failed */
  FARANDOLE_ABORTED = 4,          /* the operation was taken back */
  FARANDOLE_DISCONNECTED = 5,  /* a member was lost under the operation: free this runtime and start anew */
  FARANDOLE_OVERLOADED = 6,    /* a queue is full: wait for some operations, then retry */
  FARANDOLE_UNIMPLEMENTED = 7, /* not offered: ask in another way */
  FARANDOLE_TIMED_OUT = 8,     /* a deadline passed; the text names it */
  FARANDOLE_DISMISSED = 9, /* an elastic job goes on without this process, as was planned: end it in order */
  FARANDOLE_MISMATCH = 10, /* ranks asked for different things under one name: tell a human */
  FARANDOLE_SHUT_DOWN = 11 /* the job was shut down, by this member or by another one */
} farandole_status;

#define FARANDOLE_TEXT_BYTES 1024

typedef struct farandole_error {
  farandole_status status;
  char text[FARANDOLE_TEXT_BYTES]; /* UTF-8, ends in 0, cut where it is longer; names tensor, ranks and both
                                      values */
} farandole_error;

/* ---- A member's life
 * -------------------------------------------------------------------------------------------- */

typedef struct farandole_runtime farandole_runtime;

typedef struct farandole_setting {
  const char* name;  /* the environment variable's name: "HOROVOD_RANK" */
  const char* value; /* as the environment would spell it: "3" */
} farandole_setting;

/* Processes that do operations among themselves, by their global ranks in any order. */
typedef struct farandole_process_set {
  const int32_t* ranks;
  size_t rank_count;
} farandole_process_set;

typedef struct farandole_options {
  const farandole_setting* settings; /* beat the environment; may be NULL if there are none */
  size_t setting_count;
  int read_environment; /* whether the process' environment is read too */
  const void* secret;   /* the job's; NULL: from FARANDOLE_SECRET_FD or FARANDOLE_SECRET_FILE */
  size_t secret_bytes;
  const farandole_process_set* process_sets; /* exist from the start, the first with number 1; the same on
                                                every member, or none starts; may be NULL if there are none */
  size_t process_set_count;
} farandole_options;

/* As a process that horovodrun started wants it. */
#define FARANDOLE_OPTIONS_INIT                                                                               \
  { NULL, 0, 1, NULL, 0, NULL, 0 }

/* Joins the job that the settings name; a job of one when they name none. Returns when this member's
 * connections are up, after the start timeout at the latest. `options` may be NULL: FARANDOLE_OPTIONS_INIT.
 * On success *runtime is the caller's, to be given to farandole_free(); otherwise it is NULL. */
FARANDOLE_API farandole_status farandole_start(const farandole_options* options, farandole_runtime** runtime,
                                               farandole_error* reason);

/* Leaves in order: what is scheduled is run, what is pending fails FARANDOLE_SHUT_DOWN, here and on the other
 * members, whose job ends too. Blocks at most the shutdown timeout. May be called twice; the runtime still
 * has to be freed. */
FARANDOLE_API void farandole_shutdown(farandole_runtime* runtime);

/* Shuts down if need be and frees. Handles stay good: they are settled then. NULL is allowed. */
FARANDOLE_API void farandole_free(farandole_runtime* runtime);

/* 1 as long as operations can be submitted: 0 once the job has ended, for whatever reason, and in a forked
 * child. */
FARANDOLE_API int farandole_alive(const farandole_runtime* runtime);

/* Constant for a runtime's life. Ranks count from 0. `local` counts among the members of this host, `cross`
 * among the members that have the same local rank on their hosts. */
FARANDOLE_API int32_t farandole_rank(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_size(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_local_rank(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_local_size(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_cross_rank(const farandole_runtime* runtime);
FARANDOLE_API int32_t farandole_cross_size(const farandole_runtime* runtime);
FARANDOLE_API int
farandole_is_homogeneous(const farandole_runtime* runtime); /* 1: same local size on every host */

/* ---- Operations
 * ------------------------------------------------------------------------------------------------- */

typedef enum farandole_operation {
  FARANDOLE_ALLREDUCE =
      0, /* output = postscale * reduction over ranks of (prescale * input); same shape everywhere */
  FARANDOLE_ALLGATHER =
      1, /* the inputs one after another along the first dimension, which alone may differ */
  FARANDOLE_BROADCAST = 2, /* output = the root's input; same shape everywhere */
  FARANDOLE_BARRIER = 3,   /* settles when every member has come; no tensor */
  FARANDOLE_JOIN = 4, /* this member has no more data: it counts as zeros until all have joined; no tensor */
  FARANDOLE_ALLTOALL =
      5, /* each member's rows dealt out to all; what comes from each rank, one after another in rank order */
  FARANDOLE_REDUCESCATTER =
      6 /* as allreduce, but each member gets its own segment of the rows only: of d rows, d / size, and one
           more on the first d % size ranks; not with FARANDOLE_ADASUM */
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

/* How a caller will learn of an operation's end: tensors are exchanged in another way where nobody waits. */
typedef enum farandole_completion_mode {
  FARANDOLE_TOLD_ANYHOW = 0,  /* it waits sometime, or leaves a callback */
  FARANDOLE_TOLD_WAITING = 1, /* the thread that submits waits at once, and may move the bytes meanwhile */
  FARANDOLE_TOLD_CALLBACK = 2 /* by a callback only. One member that says so decides for all */
} farandole_completion_mode;

/* What to do with one tensor. All members must submit equal names, operations, dtypes, reductions, scales,
 * roots and (but for the first extents of allgather and alltoall) shapes; the order may differ between
 * members. Where they disagree, the operation fails FARANDOLE_MISMATCH on all of them and the job goes
 * on. Start from FARANDOLE_SUBMISSION_INIT: a scale of 0 is a scale of 0. */
typedef struct farandole_submission {
  const char*
      name; /* not empty; unique among operations in flight in the set. Names that recur are fastest */
  int32_t operation;    /* a farandole_operation */
  int32_t dtype;        /* a farandole_dtype */
  int32_t reduce_op;    /* a farandole_reduce_op; allreduce and reducescatter only */
  int32_t root;         /* the source's rank; broadcast only, -1 otherwise */
  double prescale;      /* allreduce and reducescatter only */
  double postscale;     /* allreduce and reducescatter only */
  const int64_t* shape; /* extents in elements, outermost first; NULL if there are none */
  size_t dimensions;    /* 0: a scalar, one element */
  const void* input;    /* NULL only where there are no elements, and for barrier and join */
  void* output; /* as large as `input`, which it may equal; unused (NULL) for allgather, alltoall, barrier and
                   join; reducescatter: as large as the own segment and apart from `input`, or NULL: the
                   library then allocates */
  uint32_t set; /* process set; 0 is the global one. `root` is a global rank in every set */
  const int64_t* splits; /* alltoall only: rows for each rank, in rank order, which sum to the first extent.
                            Members need not agree. Copied */
  size_t split_count;    /* the size of the set; 0: equal parts */
  int32_t told; /* a farandole_told_by. A hint: whatever it says, the caller may wait and leave a callback */
} farandole_submission;

#define FARANDOLE_SUBMISSION_INIT                                                                            \
  {                                                                                                          \
    NULL, FARANDOLE_ALLREDUCE, FARANDOLE_FLOAT32, FARANDOLE_SUM, -1, 1.0, 1.0, NULL, 0, NULL, NULL, 0, NULL, \
        0, FARANDOLE_TOLD_ANYHOW                                                                             \
  }

/* One operation in flight, or what it brought. */
typedef struct farandole_handle farandole_handle;

/* Hands one tensor in; does not wait. On success *handle is the caller's, to be given to farandole_release().
 * FARANDOLE_INVALID_ARGUMENT for a name in flight, an unknown set, a bad root, shape or number, splits that
 * do not sum to the first extent; FARANDOLE_ABORTED for a reducescatter with Adasum; FARANDOLE_OVERLOADED
 * when too much is in flight; FARANDOLE_SHUT_DOWN when the job has ended. */
FARANDOLE_API farandole_status farandole_submit(farandole_runtime* runtime, const farandole_submission* value,
                                                farandole_handle** handle, farandole_error* reason);

/* `count` tensors that become ready together, all or none; writes `count` handles. */
FARANDOLE_API farandole_status farandole_submit_group(farandole_runtime* runtime,
                                                      const farandole_submission* value, size_t count,
                                                      farandole_handle** handles, farandole_error* reason);

/* Adds or removes a process set. Collective: every member of the job makes the same call, whether it is in
 * the set or not, and waits for the others. Where they differ, or the set cannot be, all get
 * FARANDOLE_INVALID_ARGUMENT, nothing changes and the job goes on. Needs HOROVOD_DYNAMIC_PROCESS_SETS. What
 * is pending in a set that is removed fails FARANDOLE_ABORTED; its number may be given to a later set. */
FARANDOLE_API farandole_status farandole_add_process_set(farandole_runtime* runtime,
                                                         const farandole_process_set* farandole_process_set,
                                                         uint32_t* set, farandole_error* reason);
FARANDOLE_API farandole_status farandole_remove_process_set(farandole_runtime* runtime, uint32_t set,
                                                            farandole_error* reason);

/* The process sets of this moment, ascending, the global one (0) among them, and the global ranks of one of
 * them, ascending. Both write no more than `capacity` numbers, and to *count how many there are in all: call
 * with 0 (the array may be NULL then), make room, call again. FARANDOLE_INVALID_ARGUMENT for an unknown set.
 */
FARANDOLE_API farandole_status farandole_list_process_sets(const farandole_runtime* runtime, uint32_t* sets,
                                                           size_t capacity, size_t* count,
                                                           farandole_error* reason);
FARANDOLE_API farandole_status farandole_list_ranks(const farandole_runtime* runtime, uint32_t set,
                                                    int32_t* ranks, size_t capacity, size_t* count,
                                                    farandole_error* reason);

/* 1 when the operation has ended, well or not. Never blocks. */
FARANDOLE_API int farandole_poll(const farandole_handle* handle);

/* Waits until the operation has ended and returns how; -1: as long as it takes. If `timeout_ms` milliseconds
 * pass first, FARANDOLE_TIMED_OUT: the operation goes on, its buffers stay in use and it can be waited for
 * again. (An operation itself can also end FARANDOLE_TIMED_OUT; farandole_poll() then answers 1.) */
FARANDOLE_API farandole_status farandole_wait(const farandole_handle* handle, int64_t timeout_ms,
                                              farandole_error* reason);

typedef struct farandole_result {
  const void* bytes; /* allgather: the concatenation; alltoall: what came from each rank, one after another;
                        reducescatter without an output of the caller's: the own segment */
  size_t byte_count;
  const int64_t* first_dims; /* allgather: first extent that each rank brought, by rank; alltoall: rows that
                                came from each rank; reducescatter: one number, the rows of the own segment */
  size_t first_dim_count;
  int32_t last_rank; /* join: the rank that joined last; -1 otherwise */
} farandole_result;

/* What an operation brought besides the caller's `output`. The memory belongs to the handle, until it is
 * released. FARANDOLE_PRECONDITION while the operation has not settled; its own error if it failed. */
FARANDOLE_API farandole_status farandole_get_result(const farandole_handle* handle, farandole_result* result,
                                                    farandole_error* reason);

/* Calls `callback(context)` once, when the operation has settled: at once if it already has, otherwise from
 * the thread that settles it: one of the runtime's, or one that polls or waits. It must not block, and must
 * not free the runtime. One callback a handle; a second is refused with FARANDOLE_INVALID_ARGUMENT.
 *
 * A small tensor whose name recurs goes over shared memory among members of one host, without the runtime's
 * threads; with a callback, the event loop looks after it: soon after it came, then once a millisecond. */
FARANDOLE_API farandole_status farandole_on_settled(farandole_handle* handle, void (*callback)(void* context),
                                                    void* context, farandole_error* reason);

/* Takes the operation back unless it has been scheduled; it then ends FARANDOLE_ABORTED on all members.
 * Returns at once: the handle still has to be waited for before its buffers are free. */
FARANDOLE_API void farandole_cancel(farandole_handle* handle);

/* Gives the handle up. An operation in flight goes on and keeps using its buffers, so wait first, or let a
 * callback tell. NULL is allowed. */
FARANDOLE_API void farandole_release(farandole_handle* handle);

#undef FARANDOLE_API

#ifdef __cplusplus
}
#endif

#endif
