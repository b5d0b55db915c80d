/* What kernels of machine-learning frameworks submit through, on threads that hold no interpreter's lock.
 *
 * A framework's own operations (TensorFlow's kernels, MXNet's engine functions, XLA's custom calls) live in
 * small shared objects that hold no runtime: the one that init() made lives in the Python module. So the
 * module hands each of them this table of functions, once, when it is loaded. The table and its functions
 * live as long as the process. Submissions, handles and results are those of farandole.h, and so are their
 * rules of ownership.
 */
#ifndef FARANDOLE_KERNEL_API_H
#define FARANDOLE_KERNEL_API_H

#include <farandole/farandole.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FARANDOLE_KERNEL_API_VERSION 6

/* What may be asked of the job and of one process set at any time; see farandole_kernel_api.ask. */
typedef enum farandole_question {
  FARANDOLE_ASK_RANK = 0, /* of the job, or of a set: this process's number in it */
  FARANDOLE_ASK_SIZE = 1, /* of the job, or of a set */
  FARANDOLE_ASK_LOCAL_RANK = 2,
  FARANDOLE_ASK_LOCAL_SIZE = 3,
  FARANDOLE_ASK_INCLUDED = 4 /* 1 if this process is in the set, else 0 */
} farandole_question;

/* The outcome of an allreduce to which this process contributed nothing. */
typedef enum farandole_absent_result {
  FARANDOLE_REDUCED = 0, /* the output holds what the other members have contributed */
  FARANDOLE_NOTHING = 1, /* no member has contributed anything: the output is unchanged */
  FARANDOLE_ROWS = 2     /* the other members have gathered rows under this name; the output is unchanged */
} farandole_absent_result;

typedef struct farandole_kernel_api {
  uint32_t version; /* FARANDOLE_KERNEL_API_VERSION; a kernel library refuses any other */

  /* As farandole_submit_group() in the job that init() made; a group of one is an operation by itself.
   * FARANDOLE_PRECONDITION before init() and after shutdown(). */
  farandole_status (*submit)(const farandole_submission* submission, size_t count, farandole_handle** handles,
                             farandole_error* reason);
  /* As the functions of farandole.h. */
  farandole_status (*on_settled)(farandole_handle* handle, void (*callback)(void* context), void* context,
                                 farandole_error* reason);
  farandole_status (*wait)(const farandole_handle* handle, int64_t timeout_ms, farandole_error* reason);
  farandole_status (*get_result)(const farandole_handle* handle, farandole_result* result,
                                 farandole_error* reason);
  void (*release)(farandole_handle* handle);

  /* A number about this process's place. `set` counts for rank, size and included. FARANDOLE_PRECONDITION
   * without a job; FARANDOLE_INVALID_ARGUMENT for an unknown set, and for the rank in a set without this
   * process. */
  farandole_status (*ask)(farandole_question question, uint32_t set, int32_t* answer,
                          farandole_error* reason);

  /* As farandole_cancel(): for what a framework does not wait for any more, because its step has failed. */
  void (*cancel)(farandole_handle* handle);

  /* The kind of a problem in words, such as "mismatch" or "timed out"; lives as long as the process.
   * Frameworks pass on the text of an error and no more, so kernels write the kind into the text, where
   * Python reads it. */
  const char* (*kind_of)(farandole_status status);

  /* As farandole_submit() of an allreduce to which this process contributes nothing: `input` holds zeros. The other
   * members may contribute, gather rows under this name, or contribute nothing either. */
  farandole_status (*submit_absent)(const farandole_submission* submission, farandole_handle** handle,
                                    farandole_error* reason);
  /* Of such an operation that has settled without an error. */
  farandole_absent_result (*absent_result)(const farandole_handle* handle);
} farandole_kernel_api;

/* What each kernel library exports: takes the table. 0 if its version is not the one that it was built for.
 */
typedef int (*farandole_connect_function)(const farandole_kernel_api* api);

#ifdef __cplusplus
}
#endif

#endif
