// Operations of several members through the C interface, and their handles.
#include "bindings/c/job_testing.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <future>

using namespace farandole::c_testing;

namespace {

// In a forked child: whether each call for an operation in flight returns at once, with an error if it can.
bool is_refused(tensor asked) {
  farandole_error reason;
  farandole_result result;
  bool is_called = false;
  const auto call = [](void* called) { *static_cast<bool*>(called) = true; };
  farandole_on_settled(asked.handle(), call, &is_called, nullptr);
  farandole_cancel(asked.handle());
  return farandole_poll(asked.handle()) == 1 && farandole_released(asked.handle()) == 1 && is_called &&
         asked.wait().status == FARANDOLE_PRECONDITION &&
         farandole_get_result(asked.handle(), &result, &reason) == FARANDOLE_PRECONDITION &&
         std::string(reason.text).find("forked") != std::string::npos;
}

} // namespace

TEST_CASE("an allreduce of two members in one process succeeds through the C interface") {
  job together(2);
  std::vector<std::vector<float>> sums(2);
  std::vector<std::int32_t> ranks(2), sizes(2);
  std::vector<answer> ends(2);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    ranks[rank] = farandole_rank(runtime);
    sizes[rank] = farandole_size(runtime);
    // From the second round on, a recurring name is sent as an id or uses the fast path.
    for (int round = 0; round < 6; ++round) {
      tensor tensor(runtime, "sum", {static_cast<float>(rank) + 1, 10});
      ends[rank] = tensor.reduce();
      sums[rank] = tensor.output;
    }
  });
  CHECK(ranks == std::vector<std::int32_t>{0, 1});
  CHECK(sizes == std::vector<std::int32_t>{2, 2});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(ends[rank].text == "");
    CHECK(sums[rank] == std::vector<float>{3, 20});
  }
}

TEST_CASE("a forked child gets errors for an operation in flight, which it may release") {
  job together(2);
  std::vector<float> sum;
  int ended = -1;
  std::promise<void> child_ended;
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    for (int round = 0; round < 6; ++round) // to the fast path
      tensor(runtime, "sum", {1, 2}).reduce();
    if (rank == 1) {
      child_ended.get_future().wait();
      tensor(runtime, "sum", {1, 2}).reduce();
      return;
    }
    tensor in_flight(runtime, "sum", {1, 2});
    in_flight.submit();
    const pid_t child = fork();
    if (child == 0)
      _exit(is_refused(std::move(in_flight)) ? 0 : 1);
    waitpid(child, &ended, 0);
    child_ended.set_value();
    in_flight.wait();
    sum = in_flight.output;
  });
  CHECK(ended == 0);
  CHECK(sum == std::vector<float>{2, 4});
}

TEST_CASE("an allgather of uneven rows returns the row count of every rank") {
  job together(2);
  std::vector<std::vector<float>> gathered(2);
  std::vector<std::vector<std::int64_t>> dims(2);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    tensor rows(runtime, "rows", std::vector<float>(rank + 1, static_cast<float>(rank)));
    farandole_result result;
    if (rows.submit(FARANDOLE_ALLGATHER).status != FARANDOLE_OK || rows.wait().status != FARANDOLE_OK ||
        farandole_get_result(rows.handle(), &result, nullptr) != FARANDOLE_OK)
      return;
    auto* floats = static_cast<const float*>(result.bytes);
    gathered[rank].assign(floats, floats + result.byte_count / sizeof(float));
    dims[rank].assign(result.first_dims, result.first_dims + result.first_dim_count);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(gathered[rank] == std::vector<float>{0, 1, 1});
    CHECK(dims[rank] == std::vector<std::int64_t>{1, 2});
  }
}

TEST_CASE("alltoall rows arrive in rank order, and the result has the row count from every rank") {
  job together(2);
  std::vector<std::vector<float>> got(2);
  std::vector<std::vector<std::int64_t>> dims(2);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    const std::vector<std::int64_t> splits =
        rank == 0 ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{0, 1};
    tensor rows(runtime, "dealt", rank == 0 ? std::vector<float>{1, 2, 3} : std::vector<float>{4});
    auto asked = rows.request(FARANDOLE_ALLTOALL);
    asked.output = nullptr;
    asked.splits = splits.data();
    asked.split_count = splits.size();
    farandole_handle* handle = nullptr;
    farandole_result result;
    farandole_submit(runtime, &asked, &handle, nullptr);
    rows.adopt(handle);
    if (!handle || rows.wait().status != FARANDOLE_OK ||
        farandole_get_result(handle, &result, nullptr) != FARANDOLE_OK)
      return;
    auto* floats = static_cast<const float*>(result.bytes);
    got[rank].assign(floats, floats + result.byte_count / sizeof(float));
    dims[rank].assign(result.first_dims, result.first_dims + result.first_dim_count);
  });
  CHECK(got == std::vector<std::vector<float>>{{1}, {2, 3, 4}});
  CHECK(dims == std::vector<std::vector<std::int64_t>>{{1, 0}, {2, 1}});
}

TEST_CASE("a group is accepted whole or refused whole") {
  job together(2);
  std::vector<farandole_status> refused(2), taken(2);
  std::vector<std::vector<float>> sums(2);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    tensor a(runtime, "a", {1}), b(runtime, "b", {2});
    farandole_submission both[] = {a.request(), b.request()};
    farandole_handle* handles[2];
    both[1].dtype = FARANDOLE_BOOL; // cannot be reduced
    refused[rank] = farandole_submit_group(runtime, both, 2, handles, nullptr);
    both[1].dtype = FARANDOLE_FLOAT32;
    taken[rank] = farandole_submit_group(runtime, both, 2, handles, nullptr);
    a.adopt(handles[0]);
    b.adopt(handles[1]);
    if (taken[rank] == FARANDOLE_OK && a.wait().status == FARANDOLE_OK && b.wait().status == FARANDOLE_OK)
      sums[rank] = {a.output[0], b.output[0]};
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(refused[rank] == FARANDOLE_INVALID_ARGUMENT);
    CHECK(taken[rank] == FARANDOLE_OK);
    CHECK(sums[rank] == std::vector<float>{2, 4});
  }
}

TEST_CASE("a submission states its size, a shape that fits into memory, its device and its readiness") {
  job together(1);
  struct attempt {
    void (*spoil)(farandole_submission&);
    std::string text;
    farandole_status status = FARANDOLE_OK;
    std::string answer = {};
  };
  std::vector<attempt> attempts{
      {[](farandole_submission& asked) { asked.bytes = 0; },
       "initialise the struct with FARANDOLE_SUBMISSION_INIT"},
      {[](farandole_submission& asked) { asked.bytes = offsetof(farandole_submission, readiness); },
       "initialise the struct with FARANDOLE_SUBMISSION_INIT"},
      {[](farandole_submission& asked) { asked.bytes = reinterpret_cast<std::uintptr_t>(asked.name); },
       "initialise the struct with FARANDOLE_SUBMISSION_INIT"},
      {[](farandole_submission& asked) { asked.device = -2; }, "there is no GPU -2; -1 means host memory"},
      {[](farandole_submission& asked) { asked.readiness = 3; }, "there is no readiness 3"},
      {[](farandole_submission& asked) { asked.readiness = -1; }, "there is no readiness -1"},
      {[](farandole_submission& asked) {
         static constexpr std::int64_t huge[] = {0, std::int64_t{1} << 40, std::int64_t{1} << 40};
         asked.shape = huge;
         asked.dimensions = 3;
       },
       "the shape has more bytes than memory can have"},
  };
  std::vector<float> sums;
  bool released = false;
  together.run([&](farandole_runtime* runtime, std::size_t) {
    for (auto& [spoil, text, status, answer] : attempts) {
      tensor tensor(runtime, "spoilt", {1});
      auto asked = tensor.request();
      spoil(asked);
      farandole_handle* handle = nullptr;
      farandole_error reason;
      status = farandole_submit(runtime, &asked, &handle, &reason);
      answer = reason.text;
    }
    // Structs of a later version, which are longer, one behind the other.
    struct later {
      farandole_submission known;
      double appended = 7;
    };
    tensor first(runtime, "first", {1}), second(runtime, "second", {2});
    later both[] = {{first.request()}, {second.request()}};
    for (auto& each : both)
      each.known.bytes = sizeof each;
    farandole_handle* handles[2] = {nullptr, nullptr};
    farandole_submit_group(runtime, &both[0].known, 2, handles, nullptr);
    first.adopt(handles[0]);
    second.adopt(handles[1]);
    if (!handles[1] || second.wait().status != FARANDOLE_OK ||
        farandole_wait_on_stream(handles[0], nullptr, -1, nullptr) != FARANDOLE_OK)
      return;
    released = farandole_released(handles[0]) == 1;
    sums = {first.output[0], second.output[0]};
  });
  for (const auto& attempt : attempts) {
    CHECK(attempt.status == FARANDOLE_INVALID_ARGUMENT);
    CHECK_THAT(attempt.answer, Catch::Contains(attempt.text));
  }
  CHECK(released);
  CHECK(sums == std::vector<float>{1, 2});
}

TEST_CASE("a submission accepts only the three completion modes") {
  job together(2);
  std::vector<std::vector<farandole_status>> ends(2);
  std::vector<float> sums(2);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    for (const auto mode :
         {FARANDOLE_COMPLETION_ANY - 1, +FARANDOLE_COMPLETION_ANY, +FARANDOLE_COMPLETION_WAIT,
          +FARANDOLE_COMPLETION_CALLBACK, FARANDOLE_COMPLETION_CALLBACK + 1}) {
      tensor tensor(runtime, "completion", {1});
      auto asked = tensor.request();
      asked.completion_mode = mode;
      farandole_handle* handle = nullptr;
      auto end = farandole_submit(runtime, &asked, &handle, nullptr);
      tensor.adopt(handle);
      ends[rank].push_back(handle ? tensor.wait().status : end);
      sums[rank] += tensor.output[0];
    }
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(ends[rank] == std::vector{FARANDOLE_INVALID_ARGUMENT, FARANDOLE_OK, FARANDOLE_OK, FARANDOLE_OK,
                                    FARANDOLE_INVALID_ARGUMENT});
    CHECK(sums[rank] == 6);
  }
}

TEST_CASE("every member gets the text of a mismatch") {
  job together(2);
  std::vector<answer> ends(2);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    ends[rank] = tensor(runtime, "uneven", std::vector<float>(3 + rank, 1)).reduce();
  });
  for (auto& end : ends) {
    CHECK(end.status == FARANDOLE_MISMATCH);
    CHECK_THAT(end.text, Catch::Contains("uneven") && Catch::Contains("[3]") && Catch::Contains("[4]"));
  }
}

TEST_CASE("a wait ends at its timeout, has no result yet, and can be repeated") {
  job together(2);
  answer early, late;
  farandole_status no_result = FARANDOLE_OK;
  int polled_early = 1, polled_late = 0;
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    tensor slow(runtime, "slow", {1}), go(runtime, "go", {1});
    if (rank == 1) {
      go.reduce();
      slow.reduce();
      return;
    }
    slow.submit();
    early = slow.wait(0);
    polled_early = farandole_poll(slow.handle());
    farandole_result result;
    no_result = farandole_get_result(slow.handle(), &result, nullptr);
    go.reduce();
    late = slow.wait(INT64_MAX);
    polled_late = farandole_poll(slow.handle());
  });
  CHECK(early.status == FARANDOLE_TIMED_OUT);
  CHECK_THAT(early.text, Catch::Contains("slow"));
  CHECK(polled_early == 0);
  CHECK(no_result == FARANDOLE_PRECONDITION);
  CHECK(late.status == FARANDOLE_OK);
  CHECK(polled_late == 1);
}

TEST_CASE("a cancelled operation ends aborted on every member, and its callback is called") {
  job together(2);
  std::vector<answer> ends(2);
  std::promise<void> called;
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    tensor back(runtime, "taken back", {1}), go(runtime, "go", {1}), stay(runtime, "stay", {1});
    if (rank == 1)
      go.reduce();
    back.submit();
    if (rank == 0) {
      farandole_on_settled(
          back.handle(), [](void* context) { static_cast<std::promise<void>*>(context)->set_value(); },
          &called, nullptr);
      farandole_cancel(back.handle());
    }
    ends[rank] = back.wait();
    if (rank == 0)
      go.reduce();
    stay.reduce();
  });
  for (auto& end : ends)
    CHECK(end.status == FARANDOLE_ABORTED);
  // The runtimes have ended, so no thread can call the callback any more.
  CHECK(called.get_future().wait_for(std::chrono::seconds{0}) == std::future_status::ready);
}

TEST_CASE("a handle outlives its runtime, which fails the pending operation") {
  job together(2);
  handle_ptr kept;
  std::vector<float> input{1}, output{0};
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    std::int64_t shape = 1;
    farandole_submission never = FARANDOLE_SUBMISSION_INIT;
    never.name = "never";
    never.shape = &shape;
    never.dimensions = 1;
    never.input = input.data();
    never.output = output.data();
    tensor both(runtime, "both", {1});
    if (rank == 0) {
      farandole_handle* handle = nullptr;
      farandole_submit(runtime, &never, &handle, nullptr);
      kept.reset(handle);
    }
    both.reduce();
  });
  REQUIRE(kept);
  CHECK(farandole_poll(kept.get()) == 1);
  farandole_error reason;
  CHECK(farandole_wait(kept.get(), -1, &reason) == FARANDOLE_SHUT_DOWN);
  farandole_cancel(kept.get());
}
