/* A path that moves nothing and fails as tests tell it: faulty_path_testing.h. */
#include "collectives/paths/outside/faulty_path_testing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

__attribute__((visibility("default"))) struct faulty_path_plan faulty_path_plan = {(size_t)-1, 0, "", 0,
                                                                                   0,          0, 0};

static int fails(void) {
  return faulty_path_plan.taken++ == faulty_path_plan.failing;
}

static farandole_path_status failed(farandole_path_why* why) {
  const size_t bytes = strlen(faulty_path_plan.text) + 1;
  memcpy(why->text, faulty_path_plan.text, bytes < why->bytes ? bytes : why->bytes);
  return (farandole_path_status)faulty_path_plan.status;
}

/* Until it is told to give up. */
static farandole_path_status wait_in_vain(const farandole_path_limits* until) {
  struct timespec now;
  do {
    if (__atomic_load_n(until->abort_word, __ATOMIC_ACQUIRE) != 0)
      return FARANDOLE_PATH_LOST;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec * 1000000000LL + now.tv_nsec < until->deadline_nanoseconds);
  return FARANDOLE_PATH_LATE;
}

static farandole_path_status step(const farandole_path_limits* until, farandole_path_why* why) {
  if (!fails())
    return FARANDOLE_PATH_OK;
  return faulty_path_plan.never_ends ? wait_in_vain(until) : failed(why);
}

static farandole_path_status open_end(const farandole_path_set* set, void** path, farandole_path_why* why) {
  (void)set;
  *path = NULL; /* there is nothing to keep */
  return fails() ? failed(why) : FARANDOLE_PATH_OK;
}

static size_t introduce(void* path, void* bytes, size_t capacity) {
  (void)path;
  memset(bytes, 'x', 4);
  return fails() ? capacity + faulty_path_plan.claimed_beyond : 4;
}

static farandole_path_status meet(void* path, const void* const* introductions, const size_t* sizes,
                                  const farandole_path_limits* until, farandole_path_why* why) {
  (void)path, (void)introductions, (void)sizes;
  return step(until, why);
}

static farandole_path_status run(void* path, const farandole_path_work* work,
                                 const farandole_path_limits* until, farandole_path_why* why) {
  (void)path, (void)work;
  return step(until, why);
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
