/* A data path of one's own, for Farandole to load: a star of TCP connections with rank 0 in the middle. Slow,
 * and short enough to read; docs/guides/paths.md explains it.
 *
 *     cc -std=c11 -shared -fPIC -I include -o libstar.so star.c
 *     FARANDOLE_CPU_PATH=plugin FARANDOLE_PATH_LIBRARY=$PWD/libstar.so horovodrun -np 4 python train.py */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <farandole/path_plugin.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ALLREDUCE = 0, BROADCAST = 2, BARRIER = 3, ADASUM = 2 };
enum { SLICE_MS = 5 };

struct star {
  const farandole_path_set* set;
  int listener;    /* of rank 0, until all have come */
  int* to;         /* sockets by rank; rank 0 has one to each, the others one to rank 0 */
  char* memory;    /* what goes out and comes in */
  size_t capacity; /* of it */
};

static farandole_path_status because(farandole_path_why* reason, farandole_path_status status,
                                     const char* format, ...) {
  va_list all;
  va_start(all, format);
  vsnprintf(reason->text, reason->bytes, format, all);
  va_end(all);
  return status;
}

/* ---- Waiting: in slices, so that neither an abort nor the deadline is missed ---- */

static farandole_path_status may_go_on(const farandole_path_limits* deadline, farandole_path_why* reason) {
  struct timespec current_time;
  if (__atomic_load_n(deadline->abort_word, __ATOMIC_ACQUIRE) != 0)
    return because(reason, FARANDOLE_PATH_LOST, "it was told to give up");
  clock_gettime(CLOCK_MONOTONIC, &current_time);
  if (current_time.tv_sec * INT64_C(1000000000) + current_time.tv_nsec >= deadline->deadline_nanoseconds)
    return because(reason, FARANDOLE_PATH_LATE, "a socket was not ready in time");
  return FARANDOLE_PATH_OK;
}

static farandole_path_status await(int socket, short events, const farandole_path_limits* deadline,
                                   farandole_path_why* reason) {
  for (;;) {
    struct pollfd descriptor = {socket, events, 0};
    const farandole_path_status status = may_go_on(deadline, reason);
    if (status != FARANDOLE_PATH_OK || poll(&descriptor, 1, SLICE_MS) > 0)
      return status;
  }
}

/* Sends or receives all `bytes`; `peer` is for the error. */
static farandole_path_status move(const struct star* star, int peer, int number, char* memory, size_t bytes,
                                  const farandole_path_limits* deadline, farandole_path_why* reason) {
  const int32_t name = star->set->global_ranks[peer];
  while (bytes > 0) {
    const ssize_t moved =
        number ? send(star->to[peer], memory, bytes, MSG_NOSIGNAL) : recv(star->to[peer], memory, bytes, 0);
    if (moved > 0) {
      memory += moved;
      bytes -= (size_t)moved;
    } else if (moved == 0) {
      return because(reason, FARANDOLE_PATH_LOST, "rank %d has closed its connection", name);
    } else if (errno == EAGAIN || errno == EINTR) {
      const farandole_path_status status = await(star->to[peer], number ? POLLOUT : POLLIN, deadline, reason);
      if (status != FARANDOLE_PATH_OK)
        return status;
    } else {
      return because(reason, FARANDOLE_PATH_LOST, "rank %d is lost: %s", name, strerror(errno));
    }
  }
  return FARANDOLE_PATH_OK;
}

/* ---- A path's life ---- */

static void end(void* path) {
  struct star* star = path;
  for (int32_t rank = 0; star->to != NULL && rank < star->set->members; ++rank)
    if (star->to[rank] >= 0)
      close(star->to[rank]);
  if (star->listener >= 0)
    close(star->listener);
  free(star->to);
  free(star->memory);
  free(star);
}

static farandole_path_status start(const farandole_path_set* set, void** path, farandole_path_why* reason) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  struct star* star = calloc(1, sizeof *star);
  int* to = malloc((size_t)set->members * sizeof *to);
  if (star == NULL || to == NULL) {
    free(star);
    free(to);
    return because(reason, FARANDOLE_PATH_BROKEN, "no memory");
  }
  star->set = set;
  star->to = to;
  star->listener = -1;
  for (int32_t rank = 0; rank < set->members; ++rank)
    star->to[rank] = -1;
  if (set->rank == 0) {
    star->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, set->address, &address.sin_addr) != 1 ||
        bind(star->listener, (struct sockaddr*)&address, sizeof address) != 0 ||
        listen(star->listener, set->members) != 0) {
      const int problem = errno;
      end(star);
      return because(reason, FARANDOLE_PATH_BROKEN, "it cannot listen at %s: %s", set->address,
                     strerror(problem));
    }
  }
  *path = star;
  return FARANDOLE_PATH_OK;
}

/* Rank 0 says where it listens; the others have nothing to say. */
static size_t introduce(void* path, void* bytes, size_t capacity) {
  struct star* star = path;
  struct sockaddr_in address;
  socklen_t size = sizeof address;
  if (star->listener < 0 || capacity < sizeof address)
    return 0;
  getsockname(star->listener, (struct sockaddr*)&address, &size);
  memcpy(bytes, &address, sizeof address);
  return sizeof address;
}

/* A stranger that knows the port gets no further than this: it has no place in the set. A job on a network
 * that it does not own would prove more here. */
static farandole_path_status welcome(struct star* star, const farandole_path_limits* deadline,
                                     farandole_path_why* reason) {
  for (int32_t come = 1; come < star->set->members;) {
    uint64_t hello[2] = {0, 0};
    farandole_path_status status = await(star->listener, POLLIN, deadline, reason);
    if (status != FARANDOLE_PATH_OK)
      return status;
    star->to[0] = accept4(star->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (star->to[0] < 0)
      continue;
    status = move(star, 0, 0, (char*)hello, sizeof hello, deadline, reason);
    if (status == FARANDOLE_PATH_OK && hello[0] == star->set->generation && hello[1] >= 1 &&
        hello[1] < (uint64_t)star->set->members && star->to[hello[1]] < 0) {
      star->to[hello[1]] = star->to[0];
      ++come;
    } else {
      close(star->to[0]);
    }
    star->to[0] = -1;
  }
  close(star->listener);
  star->listener = -1;
  return FARANDOLE_PATH_OK;
}

static farandole_path_status meet(void* path, const void* const* member_path_addresses, const size_t* sizes,
                                  const farandole_path_limits* deadline, farandole_path_why* reason) {
  struct star* star = path;
  struct sockaddr_in address;
  uint64_t hello[2] = {star->set->generation, (uint64_t)star->set->rank};
  int problem = 0;
  socklen_t size = sizeof problem;
  if (star->set->rank == 0)
    return welcome(star, deadline, reason);
  if (sizes[0] != sizeof address)
    return because(reason, FARANDOLE_PATH_BROKEN, "rank %d said nothing of itself",
                   star->set->global_ranks[0]);
  memcpy(&address, member_path_addresses[0], sizeof address);
  star->to[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (connect(star->to[0], (struct sockaddr*)&address, sizeof address) != 0 && errno == EINPROGRESS) {
    const farandole_path_status status = await(star->to[0], POLLOUT, deadline, reason);
    if (status != FARANDOLE_PATH_OK)
      return status;
  }
  getsockopt(star->to[0], SOL_SOCKET, SO_ERROR, &problem, &size);
  if (problem != 0)
    return because(reason, FARANDOLE_PATH_LOST, "rank %d cannot be reached: %s", star->set->global_ranks[0],
                   strerror(problem));
  return move(star, 0, 1, (char*)hello, sizeof hello, deadline, reason);
}

/* ---- Works: everything goes to rank 0, and what comes of it goes back ---- */

static size_t total(const farandole_path_work* work) {
  size_t bytes = 0;
  for (size_t part = 0; part < work->part_count; ++part)
    bytes += work->parts[part].input_bytes;
  return bytes;
}

static void pack(const struct star* star, const farandole_path_work* work, char* memory) {
  for (size_t at = 0; at < work->part_count; ++at) {
    const farandole_path_part* part = &work->parts[at];
    if (part->input != NULL)
      memcpy(memory, part->input, part->input_bytes);
    else /* this member has joined */
      star->set->fill_neutral(work->dtype, work->reduce_op, memory,
                              part->input_bytes / star->set->element_bytes(work->dtype));
    memory += part->input_bytes;
  }
}

static void unpack(const farandole_path_work* work, const char* memory) {
  for (size_t at = 0; at < work->part_count; ++at) {
    if (work->parts[at].output != NULL)
      memcpy(work->parts[at].output, memory, work->parts[at].input_bytes);
    memory += work->parts[at].input_bytes;
  }
}

/* Rank 0: hears all others, one after the other. Memory holds one stretch of `bytes` for each rank. */
static farandole_path_status gather(struct star* star, const farandole_path_work* work, size_t bytes,
                                    const farandole_path_limits* deadline, farandole_path_why* reason) {
  for (int32_t rank = 1; rank < star->set->members; ++rank) {
    const int counts = work->operation != BROADCAST || work->root == rank;
    const farandole_path_status status =
        move(star, rank, 0, star->memory + (size_t)rank * bytes, counts ? bytes : 0, deadline, reason);
    if (status != FARANDOLE_PATH_OK)
      return status;
  }
  return FARANDOLE_PATH_OK;
}

static farandole_path_status settle(struct star* star, const farandole_path_work* work, size_t bytes,
                                    const farandole_path_limits* deadline, farandole_path_why* reason) {
  const size_t members = (size_t)star->set->members;
  farandole_path_status status = gather(star, work, bytes, deadline, reason);
  if (status != FARANDOLE_PATH_OK)
    return status;
  if (work->operation == BROADCAST) {
    memmove(star->memory, star->memory + (size_t)work->root * bytes, bytes);
  } else if (work->operation == ALLREDUCE) {
    const void** inputs = malloc(members * sizeof *inputs);
    if (inputs == NULL)
      return because(reason, FARANDOLE_PATH_BROKEN, "no memory");
    for (size_t rank = 0; rank < members; ++rank)
      inputs[rank] = star->memory + rank * bytes;
    star->set->reduce(work->dtype, work->reduce_op, star->memory, inputs, members,
                      bytes / star->set->element_bytes(work->dtype), work->prescale, work->postscale,
                      star->set->members);
    free(inputs);
  }
  for (int32_t rank = 1; rank < star->set->members && status == FARANDOLE_PATH_OK; ++rank)
    status = move(star, rank, 1, star->memory, bytes, deadline, reason);
  return status;
}

static farandole_path_status run(void* path, const farandole_path_work* work,
                                 const farandole_path_limits* deadline, farandole_path_why* reason) {
  struct star* star = path;
  const int centre = star->set->rank == 0;
  const size_t payload = total(work);
  const size_t bytes = work->operation == BARRIER ? 1 : payload;
  const size_t wanted = centre ? bytes * (size_t)star->set->members : bytes;
  const int brings = work->operation != BROADCAST || work->root == star->set->rank;
  farandole_path_status status = FARANDOLE_PATH_OK;
  if (work->operation == ALLREDUCE && work->reduce_op == ADASUM)
    return because(reason, FARANDOLE_PATH_REFUSED, "a star knows no Adasum");
  if (wanted > star->capacity) {
    char* larger = realloc(star->memory, wanted);
    if (larger == NULL)
      return because(reason, FARANDOLE_PATH_BROKEN, "no memory for %zu bytes", wanted);
    star->memory = larger;
    star->capacity = wanted;
  }
  if (payload > 0 && brings)
    pack(star, work, star->memory);
  if (centre) {
    status = settle(star, work, bytes, deadline, reason);
  } else {
    status = move(star, 0, 1, star->memory, brings ? bytes : 0, deadline, reason);
    if (status == FARANDOLE_PATH_OK)
      status = move(star, 0, 0, star->memory, bytes, deadline, reason);
  }
  if (status == FARANDOLE_PATH_OK)
    unpack(work, star->memory);
  return status;
}

__attribute__((visibility("default"))) const farandole_path_table* farandole_path(void) {
  static const farandole_path_table table = {FARANDOLE_PATH_VERSION,
                                             "star",
                                             1U << ALLREDUCE | 1U << BROADCAST | 1U << BARRIER,
                                             start,
                                             introduce,
                                             meet,
                                             run,
                                             end};
  return &table;
}
