/* Instructions of a test for the path of faulty_path_testing.c. The library exports them as faulty_path_plan. */
#ifndef FAULTY_PATH_TESTING_H
#define FAULTY_PATH_TESTING_H

#include <farandole/path_plugin.h>

struct faulty_path_plan {
  size_t failing;   /* the call that fails, counted from 0: open, introduce, connect, run … */
  int status;       /* the status that it returns */
  const char* text; /* the error text that it returns */
  int never_ends;   /* instead of failing, connect and run wait until abort, deadline, or until it is reset */
  size_t claimed_beyond; /* introduce: number of bytes beyond the capacity that it claims to have written */
  size_t taken;          /* number of calls so far, except calls of close */
  size_t closed;         /* number of calls of close */
  int64_t deadline_nanoseconds; /* of the last call of run */
};

#endif
