/* The C interface as a C program sees it: compiled as C99, linked with the shared library alone. Each check
 * is a claim; the program says which one failed and where, and ends with 1. */
#include <stdio.h>
#include <string.h>

#include "bindings/c/farandole.h"

static int failures = 0;

#define CHECK(claim)                                                                                         \
  do {                                                                                                       \
    if (!(claim)) {                                                                                          \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim);                                    \
      ++failures;                                                                                            \
    }                                                                                                        \
  } while (0)

static void count_call(void* context) {
  ++*(int*)context;
}

static farandole_submission three_floats(const char* name, const float* input, float* output) {
  static const int64_t shape[1] = {3};
  farandole_submission what = FARANDOLE_SUBMISSION_INIT;
  what.name = name;
  what.shape = shape;
  what.dimensions = 1;
  what.input = input;
  what.output = output;
  return what;
}

static void check_allreduce(farandole_runtime* runtime) {
  const float input[3] = {1, 2, 3};
  float output[3] = {0, 0, 0};
  int calls = 0;
  farandole_handle* handle = NULL;
  farandole_error why;
  farandole_submission what = three_floats("scaled", input, output);
  what.reduce_op = FARANDOLE_AVERAGE;
  what.postscale = 2;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, &why) == FARANDOLE_OK);
  CHECK(why.status == FARANDOLE_OK && why.text[0] == '\0');
  CHECK(farandole_poll(handle) == 1);
  CHECK(output[0] == 2 && output[1] == 4 && output[2] == 6);
  CHECK(farandole_on_settled(handle, count_call, &calls, NULL) == FARANDOLE_OK);
  CHECK(calls == 1);
  CHECK(farandole_on_settled(handle, count_call, &calls, NULL) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(calls == 1);
  farandole_release(handle);
}

static void check_allgather(farandole_runtime* runtime) {
  const float input[3] = {1, 2, 3};
  farandole_handle* handle = NULL;
  farandole_result result;
  farandole_submission what = three_floats("rows", input, NULL);
  what.operation = FARANDOLE_ALLGATHER;
  CHECK(farandole_submit(runtime, &what, &handle, NULL) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, NULL) == FARANDOLE_OK);
  CHECK(farandole_get_result(handle, &result, NULL) == FARANDOLE_OK);
  CHECK(result.byte_count == sizeof input && memcmp(result.bytes, input, sizeof input) == 0);
  CHECK(result.first_dim_count == 1 && result.first_dims[0] == 3);
  farandole_release(handle);
}

static void check_alltoall(farandole_runtime* runtime) {
  const float input[3] = {1, 2, 3};
  const int64_t splits[1] = {3}, short_of[1] = {2};
  farandole_handle* handle = NULL;
  farandole_result result;
  farandole_error why;
  farandole_submission what = three_floats("dealt", input, NULL);
  what.operation = FARANDOLE_ALLTOALL;
  what.splits = splits;
  what.split_count = 1;
  CHECK(farandole_submit(runtime, &what, &handle, NULL) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, NULL) == FARANDOLE_OK);
  CHECK(farandole_get_result(handle, &result, NULL) == FARANDOLE_OK);
  CHECK(result.byte_count == sizeof input && memcmp(result.bytes, input, sizeof input) == 0);
  CHECK(result.first_dim_count == 1 && result.first_dims[0] == 3);
  farandole_release(handle);
  what.splits = short_of;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(strstr(why.text, "dealt") && strstr(why.text, "sum to 2") && strstr(why.text, "3"));
  what.splits = NULL;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_INVALID_ARGUMENT);
}

static void check_reducescatter(farandole_runtime* runtime) {
  const float input[3] = {1, 2, 3};
  float output[3] = {0, 0, 0};
  farandole_handle* handle = NULL;
  farandole_result result;
  farandole_error why;
  farandole_submission what = three_floats("segment", input, output);
  what.operation = FARANDOLE_REDUCESCATTER;
  what.prescale = 2;
  CHECK(farandole_submit(runtime, &what, &handle, NULL) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, NULL) == FARANDOLE_OK);
  CHECK(output[0] == 2 && output[1] == 4 && output[2] == 6);
  CHECK(farandole_get_result(handle, &result, NULL) == FARANDOLE_OK);
  CHECK(result.byte_count == 0);
  CHECK(result.first_dim_count == 1 && result.first_dims[0] == 3);
  farandole_release(handle);
  what.output = NULL;
  CHECK(farandole_submit(runtime, &what, &handle, NULL) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, NULL) == FARANDOLE_OK);
  CHECK(farandole_get_result(handle, &result, NULL) == FARANDOLE_OK);
  CHECK(result.byte_count == sizeof output && memcmp(result.bytes, output, sizeof output) == 0);
  farandole_release(handle);
  what.reduce_op = FARANDOLE_ADASUM;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_ABORTED);
  CHECK(strstr(why.text, "segment") != NULL);
}

static void check_refusals(farandole_runtime* runtime) {
  const int64_t huge[2] = {INT64_MAX / 2, 4}, negative[1] = {-1};
  const float input[3] = {1, 2, 3};
  float output[3];
  farandole_handle* handle = NULL;
  farandole_error why;
  farandole_submission what = three_floats("wrong", input, output);
  what.dtype = 77;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(why.status == FARANDOLE_INVALID_ARGUMENT && strstr(why.text, "wrong") && strstr(why.text, "77"));
  CHECK(handle == NULL);
  what = three_floats("wrong", input, output);
  what.operation = -1;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_INVALID_ARGUMENT);
  what = three_floats("wrong", NULL, output);
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_INVALID_ARGUMENT);
  what = three_floats("wrong", input, output);
  what.shape = negative;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_INVALID_ARGUMENT);
  what.shape = huge;
  what.dimensions = 2;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(strstr(why.text, "memory") != NULL);
  what = three_floats("wrong", input, output);
  what.set = 9;
  CHECK(farandole_submit(runtime, &what, &handle, &why) == FARANDOLE_INVALID_ARGUMENT);
}

int main(void) {
  farandole_options options = FARANDOLE_OPTIONS_INIT;
  farandole_setting wrong = {"HOROVOD_SIZE", "-5"};
  farandole_runtime* runtime = NULL;
  farandole_error why;
  options.read_environment = 0;

  options.settings = &wrong;
  options.setting_count = 1;
  CHECK(farandole_start(&options, &runtime, &why) != FARANDOLE_OK);
  CHECK(runtime == NULL && strstr(why.text, "HOROVOD_SIZE") != NULL);

  options.setting_count = 0;
  if (farandole_start(&options, &runtime, &why) != FARANDOLE_OK) {
    fprintf(stderr, "no runtime: %s\n", why.text);
    return 1;
  }
  CHECK(farandole_rank(runtime) == 0 && farandole_size(runtime) == 1);
  CHECK(farandole_local_rank(runtime) == 0 && farandole_local_size(runtime) == 1);
  CHECK(farandole_cross_rank(runtime) == 0 && farandole_cross_size(runtime) == 1);
  CHECK(farandole_is_homogeneous(runtime) == 1);
  CHECK(farandole_alive(runtime) == 1);
  check_allreduce(runtime);
  check_allgather(runtime);
  check_alltoall(runtime);
  check_reducescatter(runtime);
  check_refusals(runtime);
  farandole_shutdown(runtime);
  CHECK(farandole_alive(runtime) == 0);
  farandole_free(runtime);
  farandole_free(NULL);
  farandole_release(NULL);
  return failures == 0 ? 0 : 1;
}
