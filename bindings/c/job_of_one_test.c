/* The C interface as a C program sees it: compiled as C99, linked with the shared library alone. Each check
 * is a claim; the program says which one failed and where, and ends with 1. */
#include <stdio.h>
#include <string.h>

#include <farandole/farandole.h>

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
  farandole_submission submission = FARANDOLE_SUBMISSION_INIT;
  submission.name = name;
  submission.shape = shape;
  submission.dimensions = 1;
  submission.input = input;
  submission.output = output;
  return submission;
}

static void check_allreduce(farandole_runtime* runtime) {
  const float input[3] = {1, 2, 3};
  float output[3] = {0, 0, 0};
  int calls = 0;
  farandole_handle* handle = NULL;
  farandole_error reason;
  farandole_submission submission = three_floats("scaled", input, output);
  submission.reduce_op = FARANDOLE_AVERAGE;
  submission.postscale = 2;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, &reason) == FARANDOLE_OK);
  CHECK(reason.status == FARANDOLE_OK && reason.text[0] == '\0');
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
  farandole_submission submission = three_floats("rows", input, NULL);
  submission.operation = FARANDOLE_ALLGATHER;
  CHECK(farandole_submit(runtime, &submission, &handle, NULL) == FARANDOLE_OK);
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
  farandole_error reason;
  farandole_submission submission = three_floats("dealt", input, NULL);
  submission.operation = FARANDOLE_ALLTOALL;
  submission.splits = splits;
  submission.split_count = 1;
  CHECK(farandole_submit(runtime, &submission, &handle, NULL) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, NULL) == FARANDOLE_OK);
  CHECK(farandole_get_result(handle, &result, NULL) == FARANDOLE_OK);
  CHECK(result.byte_count == sizeof input && memcmp(result.bytes, input, sizeof input) == 0);
  CHECK(result.first_dim_count == 1 && result.first_dims[0] == 3);
  farandole_release(handle);
  submission.splits = short_of;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(strstr(reason.text, "dealt") && strstr(reason.text, "sum to 2") && strstr(reason.text, "3"));
  submission.splits = NULL;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_INVALID_ARGUMENT);
}

static void check_reducescatter(farandole_runtime* runtime) {
  const float input[3] = {1, 2, 3};
  float output[3] = {0, 0, 0};
  farandole_handle* handle = NULL;
  farandole_result result;
  farandole_error reason;
  farandole_submission submission = three_floats("segment", input, output);
  submission.operation = FARANDOLE_REDUCESCATTER;
  submission.prescale = 2;
  CHECK(farandole_submit(runtime, &submission, &handle, NULL) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, NULL) == FARANDOLE_OK);
  CHECK(output[0] == 2 && output[1] == 4 && output[2] == 6);
  CHECK(farandole_get_result(handle, &result, NULL) == FARANDOLE_OK);
  CHECK(result.byte_count == 0);
  CHECK(result.first_dim_count == 1 && result.first_dims[0] == 3);
  farandole_release(handle);
  submission.output = NULL;
  CHECK(farandole_submit(runtime, &submission, &handle, NULL) == FARANDOLE_OK);
  CHECK(farandole_wait(handle, -1, NULL) == FARANDOLE_OK);
  CHECK(farandole_get_result(handle, &result, NULL) == FARANDOLE_OK);
  CHECK(result.byte_count == sizeof output && memcmp(result.bytes, output, sizeof output) == 0);
  farandole_release(handle);
  submission.reduce_op = FARANDOLE_ADASUM;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_ABORTED);
  CHECK(strstr(reason.text, "segment") != NULL);
}

static void check_refusals(farandole_runtime* runtime) {
  const int64_t huge[2] = {INT64_MAX / 2, 4}, negative[1] = {-1};
  const float input[3] = {1, 2, 3};
  float output[3];
  farandole_handle* handle = NULL;
  farandole_error reason;
  farandole_submission submission = three_floats("wrong", input, output);
  CHECK(farandole_start_timeline(runtime, NULL, 0, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(farandole_start_timeline(runtime, "unused.json", 0, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(strstr(reason.text, "HOROVOD_TIMELINE") != NULL);
  char text[64] = "untouched";
  int over = 7;
  CHECK(farandole_next_stall(runtime, 0, NULL, 64, &over, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(farandole_next_stall(runtime, 0, text, 0, &over, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(farandole_next_stall(runtime, 0, text, 64, NULL, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(farandole_next_stall(runtime, -2, text, 64, &over, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(strstr(reason.text, "-2 ms") != NULL);
  CHECK(strcmp(text, "untouched") == 0 && over == 7);
  submission.dtype = 77;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(reason.status == FARANDOLE_INVALID_ARGUMENT && strstr(reason.text, "wrong") &&
        strstr(reason.text, "77"));
  CHECK(handle == NULL);
  submission = three_floats("wrong", input, output);
  submission.operation = -1;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_INVALID_ARGUMENT);
  submission = three_floats("wrong", NULL, output);
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_INVALID_ARGUMENT);
  submission = three_floats("wrong", input, output);
  submission.shape = negative;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_INVALID_ARGUMENT);
  submission.shape = huge;
  submission.dimensions = 2;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_INVALID_ARGUMENT);
  CHECK(strstr(reason.text, "memory") != NULL);
  submission = three_floats("wrong", input, output);
  submission.set = 9;
  CHECK(farandole_submit(runtime, &submission, &handle, &reason) == FARANDOLE_INVALID_ARGUMENT);
}

int main(void) {
  farandole_options options = FARANDOLE_OPTIONS_INIT;
  farandole_setting wrong = {"HOROVOD_SIZE", "-5"};
  farandole_runtime* runtime = NULL;
  farandole_error reason;
  options.read_environment = 0;

  options.settings = &wrong;
  options.setting_count = 1;
  CHECK(farandole_start(&options, &runtime, &reason) != FARANDOLE_OK);
  CHECK(runtime == NULL && strstr(reason.text, "HOROVOD_SIZE") != NULL);

  options.setting_count = 0;
  if (farandole_start(&options, &runtime, &reason) != FARANDOLE_OK) {
    fprintf(stderr, "no runtime: %s\n", reason.text);
    return 1;
  }
  CHECK(farandole_rank(runtime) == 0 && farandole_size(runtime) == 1);
  CHECK(farandole_local_rank(runtime) == 0 && farandole_local_size(runtime) == 1);
  CHECK(farandole_cross_rank(runtime) == 0 && farandole_cross_size(runtime) == 1);
  CHECK(farandole_is_homogeneous(runtime) == 1);
  CHECK(farandole_alive(runtime) == 1);
  CHECK(farandole_mark_step(runtime, &reason) == FARANDOLE_OK);
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
