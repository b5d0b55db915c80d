/* What tests tell the path of faulty_path_testing.c. The library exports it under the name faulty_path_plan.
 */
#ifndef FAULTY_PATH_TESTING_H
#define FAULTY_PATH_TESTING_H

#include <farandole/path_plugin.h>

struct faulty_path_plan {
  size_t failing;        /* the call that fails, counted from 0: open, introduce, connect, run … */
  int status;            /* what it returns */
  const char* text;      /* why */
  int never_ends;        /* instead: connect and run wait until they are told to give up */
  size_t claimed_beyond; /* introduce: how many bytes more than it may write it says that it has written */
  size_t taken;          /* calls so far, those of close not among them */
  size_t closed;         /* calls of close */
};

#endif
