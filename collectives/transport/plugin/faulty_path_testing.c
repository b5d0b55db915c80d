/* A path that moves nothing and fails as the test instructs it: see faulty_path_testing.h. */
#include "collectives/transport/plugin/faulty_path_testing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((visibility("default"))) struct faulty_path_plan faulty_path_plan = {(size_t)-1, 0, "", 0,
                                                                                   0,          0, 0,  0};

static int fails(void) {
  return faulty_path_plan.taken++ == faulty_path_plan.failing;
}

static farandole_path_status failed(farandole_path_why* reason) {
  const size_t bytes = strlen(faulty_path_plan.text) + 1;
  memcpy(reason->text, faulty_path_plan.text, bytes < reason->bytes ? bytes : reason->bytes);
  return (farandole_path_status)faulty_path_plan.status;
}

/* Waits until abort, deadline, or until the test lets it go on. */
static farandole_path_status wait_for_test(const farandole_path_limits* deadline) {
  struct timespec current_time;
  do {
    if (__atomic_load_n(deadline->abort_word, __ATOMIC_ACQUIRE) != 0)
      return FARANDOLE_PATH_LOST;
    if (__atomic_load_n(&faulty_path_plan.never_ends, __ATOMIC_ACQUIRE) == 0)
      return FARANDOLE_PATH_OK;
    clock_gettime(CLOCK_MONOTONIC, &current_time);
  } while (current_time.tv_sec * 1000000000LL + current_time.tv_nsec < deadline->deadline_nanoseconds);
  return FARANDOLE_PATH_LATE;
}

static farandole_path_status step(const farandole_path_limits* deadline, farandole_path_why* reason) {
  if (!fails())
    return FARANDOLE_PATH_OK;
  return faulty_path_plan.never_ends ? wait_for_test(deadline) : failed(reason);
}

static farandole_path_status open_end(const farandole_path_set* set, void** path,
                                      farandole_path_why* reason) {
  (void)set;
  *path = NULL; /* there is nothing to keep */
  return fails() ? failed(reason) : FARANDOLE_PATH_OK;
}

static size_t introduce(void* path, void* bytes, size_t capacity) {
  (void)path;
  memset(bytes, 'x', 4);
  return fails() ? capacity + faulty_path_plan.claimed_beyond : 4;
}

static farandole_path_status meet(void* path, const void* const* member_path_addresses, const size_t* sizes,
                                  const farandole_path_limits* deadline, farandole_path_why* reason) {
  (void)path, (void)member_path_addresses, (void)sizes;
  return step(deadline, reason);
}

static farandole_path_status run(void* path, const farandole_path_work* work,
                                 const farandole_path_limits* deadline, farandole_path_why* reason) {
  (void)path, (void)work;
  faulty_path_plan.deadline_nanoseconds = deadline->deadline_nanoseconds;
  return step(deadline, reason);
}

static void close_end(void* path) {
  (void)path;
  ++faulty_path_plan.closed;
}

__attribute__((visibility("default"))) const farandole_path_table* farandole_path(void) {
  static const farandole_path_table table = {
      FARANDOLE_PATH_VERSION, "faulty", 0x6f, open_end, introduce, meet, run, close_end};
  return &table;
}
