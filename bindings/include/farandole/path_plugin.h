/* A data path of one's own, in a shared library that Farandole loads by name:
 *
 *     FARANDOLE_CPU_PATH=plugin FARANDOLE_PATH_LIBRARY=/full/path/libstar.so horovodrun -np 4 python
 * train.py
 *
 * The library exports one function, farandole_path(), which gives a table of calls. For each process set a
 * member opens one path, which then belongs to one thread: the set's lane. All calls for it come from there,
 * one after the other, in the order open, introduce, connect, run …, close; every member of the set makes the
 * same runs in the same order. Operations that the table does not name go by Farandole's own paths.
 *
 * Memory.    A run may touch the buffers of its work from its call to its return and never afterwards,
 * however it ends. What is passed in belongs to Farandole and is valid during the call; `set` until close.
 * Waiting.   Calls may block, but must return soon after the abort word becomes 1 or the deadline passes:
 * look at both at least every few milliseconds. Signals are blocked on the lane's thread. Errors.
 * FARANDOLE_PATH_LOST and FARANDOLE_PATH_LATE end the path, and with it the set; say who is lost or what was
 * late in `why`. FARANDOLE_PATH_REFUSED says that nothing was sent and that all members refuse alike: the
 * operation fails with that text, and the path goes on.
 *
 * docs/guides/paths.md walks through an example. C99, and C++ as well; numbers never change. */
#ifndef FARANDOLE_PATH_H
#define FARANDOLE_PATH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. A table with another number is refused. */
#define FARANDOLE_PATH_VERSION 1

typedef enum farandole_path_status {
  FARANDOLE_PATH_OK = 0,
  FARANDOLE_PATH_LOST = 1,    /* a member is gone, or the abort word was raised */
  FARANDOLE_PATH_LATE = 2,    /* the deadline has passed */
  FARANDOLE_PATH_REFUSED = 3, /* not offered; nothing was sent */
  FARANDOLE_PATH_BROKEN = 4   /* anything else */
} farandole_path_status;

/* Where a call says why it failed: UTF-8, ends in 0. */
typedef struct farandole_path_why {
  char* text;
  size_t bytes; /* that fit, the 0 included */
} farandole_path_why;

/* The members of a set, and what Farandole lends. Numbers of data types and of reductions are those of
 * farandole_dtype and farandole_reduce_op (farandole.h). */
typedef struct farandole_path_set {
  uint64_t generation;
  uint32_t set;
  int32_t rank;                /* own, within the set */
  int32_t members;             /* at least 2 */
  const int32_t* global_ranks; /* by rank within the set */
  const int32_t* hosts;        /* by rank within the set: members with the same number share a host */
  const char* address;         /* an IP address at which the other members reach this one */
  size_t (*element_bytes)(int32_t dtype);
  /* output[i] = postscale * (prescale * inputs[0][i] op prescale * inputs[1][i] op …), in this order;
   * `output` may be one of the inputs. An average is divided by `members`. Not for Adasum. */
  void (*reduce)(int32_t dtype, int32_t reduce_op, void* output, const void* const* inputs,
                 size_t input_count, size_t elements, double prescale, double postscale, int32_t members);
  /* What changes nothing in a reduction: for members that have joined and bring no input. */
  void (*fill_neutral)(int32_t dtype, int32_t reduce_op, void* output, size_t elements);
} farandole_path_set;

typedef struct farandole_path_part {
  const void* input; /* NULL: this member has joined; the neutral element stands in, and output is NULL too */
  void* output;      /* may be equal to input (allreduce, broadcast), else does not overlap it */
  size_t input_bytes;
} farandole_path_part;

/* One bundle of tensors of one data type; the parts of all members correspond. */
typedef struct farandole_path_work {
  uint64_t sequence; /* counts the set's works from 0, with gaps where other paths moved some */
  int32_t operation; /* farandole_operation: allreduce 0, allgather 1, broadcast 2, barrier 3, alltoall 5,
                        reducescatter 6 */
  int32_t dtype;
  int32_t reduce_op;
  int32_t root; /* broadcast: rank within the set; else -1 */
  double prescale;
  double postscale;
  size_t part_count;
  const farandole_path_part* parts;
  const size_t* gathered; /* allgather: bytes of part p from member m at [p * members + m]; else NULL */
  const size_t* sent;     /* alltoall, reducescatter: bytes of part p's input for member m; else NULL */
  const size_t* received; /* alltoall: bytes of part p's output from member m; else NULL */
} farandole_path_work;

typedef struct farandole_path_limits {
  const uint32_t*
      abort_word; /* 0, and 1 from the moment at which the call must give up; read it atomically */
  int64_t deadline_nanoseconds; /* of CLOCK_MONOTONIC */
} farandole_path_limits;

typedef struct farandole_path_table {
  uint32_t version;    /* FARANDOLE_PATH_VERSION */
  const char* name;    /* for people and logs */
  uint32_t operations; /* bit 1 << operation for each that the path moves; the others go elsewhere */

  /* Makes this member's end. *path is what the other calls get. */
  farandole_path_status (*open)(const farandole_path_set* set, void** path, farandole_path_why* reason);
  /* Writes what the other members must know to reach this one; its size, at most `capacity`. */
  size_t (*introduce)(void* path, void* bytes, size_t capacity);
  /* What all members wrote, by rank within the set. Returns when this member is connected. */
  farandole_path_status (*connect)(void* path, const void* const* member_path_addresses, const size_t* sizes,
                                   const farandole_path_limits* deadline, farandole_path_why* reason);
  farandole_path_status (*run)(void* path, const farandole_path_work* work,
                               const farandole_path_limits* deadline, farandole_path_why* reason);
  /* After open() succeeded, exactly once, however the path ended. Soon: nobody hears of a failure here. */
  void (*close)(void* path);
} farandole_path_table;

/* What the library exports. The table stays valid while the process lives; the library is never unloaded. */
#define FARANDOLE_PATH_SYMBOL "farandole_path"
typedef const farandole_path_table* farandole_path_function(void);

#ifdef __cplusplus
}
#endif

#endif
