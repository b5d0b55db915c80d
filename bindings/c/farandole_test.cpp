// Jobs of several members through the C interface: a rendezvous and the members in one process, each member on its
// own thread.
#include <catch2/catch.hpp>

#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "actors/event_loop/loop.hpp"
#include "actors/interfaces/slots.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include <farandole/farandole.h>

namespace {

const std::string secret = "a secret that only this test knows";
constexpr auto stall_setting = "HOROVOD_STALL_CHECK_TIME_SECONDS";

struct release {
  void operator()(farandole_runtime* runtime) const { farandole_free(runtime); }
  void operator()(farandole_handle* handle) const { farandole_release(handle); }
};
using runtime_ptr = std::unique_ptr<farandole_runtime, release>;
using handle_ptr = std::unique_ptr<farandole_handle, release>;

struct answer {
  farandole_status status = FARANDOLE_OK;
  std::string text;
};

/// A job of `size` members that find each other by a rendezvous in this process.
class job {
public:
  explicit job(std::int32_t size, bool elastic = false, const char* stall_warning_seconds = "60")
      : size_(size), elastic_(elastic ? "1" : "0"), stall_warning_seconds_(stall_warning_seconds) {
    const auto lookup = [&](std::string_view name) -> std::optional<std::string> {
      return name == stall_setting ? std::optional<std::string>(stall_warning_seconds_) : std::nullopt;
    };
    const auto values = farandole::settings::load({lookup, {}, {}});
    REQUIRE(values);
    farandole::rendezvous_options options;
    options.settings = *values;
    options.members.size = size;
    options.members.elastic = elastic;
    options.members.limit = size;
    options.links.credentials = std::make_shared<const farandole::tls_credentials>(secret);
    auto service = farandole::start_rendezvous(system_.get(), options);
    REQUIRE(service);
    actor_ = service->actor;
    port_ = std::to_string(service->port);
    for (std::int32_t slot = 0; elastic && slot < size; ++slot)
      caf::anon_send(actor_, farandole::slot_started{slot});
  }
  ~job() { caf::anon_send(actor_, farandole::close_atom::value); }

  /// Calls `action(runtime, rank)` on a thread for each member, and returns when all members have left.
  template <class Action>
  void run(Action action) const {
    std::vector<std::thread> threads;
    std::vector<answer> starts(static_cast<std::size_t>(size_));
    for (std::int32_t rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        auto index = static_cast<std::size_t>(rank);
        if (auto runtime = start(rank, starts[index]))
          action(runtime.get(), index);
      });
    for (auto& thread : threads)
      thread.join();
    for (auto& reply : starts)
      CHECK(reply.text == "");
  }

private:
  runtime_ptr start(std::int32_t rank, answer& reply) const {
    auto rank_text = std::to_string(rank), size_text = std::to_string(size_);
    farandole_setting settings[] = {{"HOROVOD_RANK", rank_text.c_str()},
                                    {"HOROVOD_SIZE", size_text.c_str()},
                                    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
                                    {"HOROVOD_GLOO_RENDEZVOUS_PORT", port_.c_str()},
                                    {"HOROVOD_ELASTIC", elastic_},
                                    {stall_setting, stall_warning_seconds_},
                                    {"HOROVOD_DYNAMIC_PROCESS_SETS", "1"}};
    farandole_options options = FARANDOLE_OPTIONS_INIT;
    options.settings = settings;
    options.setting_count = std::size(settings);
    options.read_environment = 0;
    options.secret = secret.data();
    options.secret_bytes = secret.size();
    farandole_runtime* runtime = nullptr;
    farandole_error reason;
    reply.status = farandole_start(&options, &runtime, &reason);
    reply.text = reason.text;
    return runtime_ptr(runtime);
  }

  std::int32_t size_;
  const char* elastic_;
  const char* stall_warning_seconds_;
  farandole::loop_system system_;
  farandole::rendezvous_actor actor_;
  std::string port_;
};

/// One tensor of floats and the operation on it.
class tensor {
public:
  std::vector<float> output;

  tensor(farandole_runtime* runtime, std::string name, std::vector<float> input)
      : output(input.size()), runtime_(runtime), name_(std::move(name)), input_(std::move(input)),
        shape_(static_cast<std::int64_t>(input_.size())) {}

  farandole_submission request(std::int32_t operation = FARANDOLE_ALLREDUCE) {
    farandole_submission asked = FARANDOLE_SUBMISSION_INIT;
    asked.name = name_.c_str();
    asked.operation = operation;
    asked.shape = &shape_;
    asked.dimensions = 1;
    asked.input = input_.data();
    asked.output = output.data();
    return asked;
  }

  answer submit(std::int32_t operation = FARANDOLE_ALLREDUCE) {
    auto asked = request(operation);
    farandole_error reason;
    farandole_handle* handle = nullptr;
    auto status = farandole_submit(runtime_, &asked, &handle, &reason);
    adopt(handle);
    return {status, reason.text};
  }

  void adopt(farandole_handle* handle) { handle_.reset(handle); }
  farandole_handle* handle() const { return handle_.get(); }

  answer wait(std::int64_t timeout_ms = -1) const {
    farandole_error reason;
    auto status = farandole_wait(handle_.get(), timeout_ms, &reason);
    return {status, reason.text};
  }

  answer reduce() {
    auto asked = submit();
    return asked.status == FARANDOLE_OK ? wait() : asked;
  }

private:
  farandole_runtime* runtime_;
  std::string name_;
  std::vector<float> input_;
  std::int64_t shape_;
  handle_ptr handle_;
};

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

TEST_CASE("a member that withdraws announces one removal to all members of an elastic job") {
  struct view {
    std::uint64_t generation = 0, changes = 0;
    int must_sync = 0, joined_late = 0, removals_only = 0;
    bool operator==(const view&) const = default;
  };
  job together(2, true);
  std::vector<view> views(2);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    auto& seen = views[rank];
    seen.generation = farandole_generation(runtime);
    seen.must_sync = farandole_must_sync(runtime);
    seen.joined_late = farandole_joined_late(runtime);
    if (rank == 1)
      farandole_withdraw(runtime);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (seen.changes == 0 && std::chrono::steady_clock::now() < deadline) {
      farandole_membership_change(runtime, &seen.changes, &seen.removals_only);
      std::this_thread::yield();
    }
    // This keeps each member in the job until the other member has learnt of the removal.
    tensor last(runtime, "last", {1});
    if (last.submit().status == FARANDOLE_OK)
      last.wait();
  });
  const view expected = {.generation = 1, .changes = 1, .must_sync = 1, .joined_late = 0, .removals_only = 1};
  CHECK(views[0] == expected);
  CHECK(views[1] == expected);
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

namespace {

// Lists numbers by two calls, as the interface requires: one for the count and one for the numbers.
template <class Number, class List>
std::vector<Number> listed(List list) {
  std::size_t count = 0;
  if (list(static_cast<Number*>(nullptr), std::size_t{0}, &count) != FARANDOLE_OK)
    return {};
  std::vector<Number> all(count);
  list(all.data(), all.size(), &count);
  return all;
}

std::vector<std::uint32_t> sets_of(const farandole_runtime* runtime) {
  return listed<std::uint32_t>([&](auto* numbers, std::size_t capacity, std::size_t* count) {
    return farandole_list_process_sets(runtime, numbers, capacity, count, nullptr);
  });
}

std::vector<std::int32_t> ranks_of(const farandole_runtime* runtime, std::uint32_t set) {
  return listed<std::int32_t>([&](auto* numbers, std::size_t capacity, std::size_t* count) {
    return farandole_list_ranks(runtime, set, numbers, capacity, count, nullptr);
  });
}

/// A member's observations of a set from its addition to its removal.
struct set_observation {
  farandole_status added = FARANDOLE_UNKNOWN, differing = FARANDOLE_OK, removed = FARANDOLE_UNKNOWN;
  std::uint32_t set = 0;
  std::vector<std::uint32_t> before, after;
  std::vector<std::int32_t> ranks, ranks_after;
  answer inside, end;
  float sum = 0;

  explicit set_observation(farandole_runtime* runtime) {
    const std::int32_t members[] = {2, 1}, own[] = {farandole_rank(runtime)};
    const farandole_process_set wanted{members, 2}, other{own, 1};
    added = farandole_add_process_set(runtime, &wanted, &set, nullptr);
    before = sets_of(runtime);
    ranks = ranks_of(runtime, set);
    tensor entry(runtime, "sum", {1});
    auto asked = entry.request();
    asked.set = set;
    farandole_handle* handle = nullptr;
    inside.status = farandole_submit(runtime, &asked, &handle, nullptr);
    entry.adopt(handle);
    if (handle)
      inside = entry.wait();
    sum = entry.output[0];
    std::uint32_t none = 0;
    differing = farandole_add_process_set(runtime, &other, &none, nullptr);
    removed = farandole_remove_process_set(runtime, set, nullptr);
    after = sets_of(runtime);
    ranks_after = ranks_of(runtime, set);
    end = tensor(runtime, "nobody leaves before all have come here", {1}).reduce();
  }
};

} // namespace

TEST_CASE("process sets are added, listed and removed through the C interface") {
  job together(3);
  std::vector<std::unique_ptr<set_observation>> observations(3);
  together.run([&](farandole_runtime* runtime, std::size_t rank) {
    observations[rank] = std::make_unique<set_observation>(runtime);
  });
  for (std::size_t rank = 0; rank < 3; ++rank) {
    auto& entry = *observations.at(rank);
    CHECK(entry.added == FARANDOLE_OK);
    CHECK(entry.set == 1);
    CHECK(entry.before == std::vector<std::uint32_t>{0, 1});
    CHECK(entry.ranks == std::vector<std::int32_t>{1, 2});
    CHECK(entry.inside.status == (rank == 0 ? FARANDOLE_INVALID_ARGUMENT : FARANDOLE_OK));
    CHECK(entry.sum == (rank == 0 ? 0 : 2));
    CHECK(entry.differing == FARANDOLE_INVALID_ARGUMENT);
    CHECK(entry.removed == FARANDOLE_OK);
    CHECK(entry.after == std::vector<std::uint32_t>{0});
    CHECK(entry.ranks_after.empty());
    CHECK(entry.end.text == "");
  }
}

TEST_CASE("every member can wait for the report of a stall, and for its end") {
  struct report {
    farandole_status status = FARANDOLE_OK;
    std::string text;
    int over = -1;
  };
  std::vector<std::vector<report>> all(2);
  std::promise<void> told;
  const auto reported = told.get_future().share();
  std::latch both_heard(2); // a member that leaves ends the job, and with it the reports to the other
  job(2, false, "1").run([&](farandole_runtime* runtime, std::size_t rank) {
    const auto next = [&](std::int64_t timeout_ms) {
      report found;
      char text[1000] = "";
      found.status = farandole_next_stall(runtime, timeout_ms, text, sizeof text, &found.over, nullptr);
      found.text = text;
      all[rank].push_back(found);
    };
    tensor late(runtime, "late", {1});
    next(0); // reports are kept from now on
    if (rank == 0)
      late.submit();
    next(60'000);
    if (rank == 0)
      told.set_value();
    reported.wait();
    if (rank == 1)
      late.submit();
    next(60'000);
    late.wait();
    both_heard.arrive_and_wait();
    farandole_shutdown(runtime);
    next(-1);
  });
  for (const auto& reports : all) {
    REQUIRE(reports.size() == 4);
    CHECK(reports[0].status == FARANDOLE_TIMED_OUT);
    CHECK(reports[1].status == FARANDOLE_OK);
    CHECK_THAT(reports[1].text, Catch::EndsWith("Missing ranks:\n1: [late]"));
    CHECK(reports[1].over == 0);
    CHECK(reports[2].status == FARANDOLE_OK);
    CHECK_THAT(reports[2].text, Catch::StartsWith("The stall is over: it lasted "));
    CHECK(reports[2].over == 1);
    CHECK(reports[3].status == FARANDOLE_SHUT_DOWN);
  }
}
