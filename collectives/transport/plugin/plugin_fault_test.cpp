// If any call into the library of a plugin path fails, the connect or the operation of that member fails with
// the library's reason. The library of these tests moves nothing (faulty_path_testing.c).
#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "collectives/transport/bundle_testing.hpp"
#include "collectives/transport/forked_testing.hpp"
#include "collectives/transport/plugin/faulty_path_testing.h"
#include "collectives/transport/plugin/plugin_path.hpp"

using namespace farandole;
using namespace farandole::testing;

extern const char faulty_path_library[]; // CMake defines it

namespace {

constexpr std::size_t step_of_introduce = 1, step_of_connect = 2, step_of_run = 3;
constexpr std::size_t runs = 3;

/// The plan of the library, reset for this process.
faulty_path_plan& reset_plan() {
  void* library = ::dlopen(faulty_path_library, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto* plan = static_cast<faulty_path_plan*>(::dlsym(library, "faulty_path_plan"));
  REQUIRE(plan != nullptr);
  *plan = {SIZE_MAX, FARANDOLE_PATH_OK, "", 0, 0, 0, 0, 0};
  return *plan;
}

plugin_options options_of_two() {
  plugin_options options;
  options.library = faulty_path_library;
  options.global_ranks = {0, 1};
  options.hosts = {0, 0};
  return options;
}

/// The error of each call. After a failed call only further runs are attempted.
struct ending {
  error opening, connecting;
  std::vector<error> running;
};

ending played(operation op, const deadline_and_abort& deadline) {
  ending all;
  auto opened = plugin_path::open(options_of_two());
  if (!opened) {
    all.opening = opened.error();
    return all;
  }
  plugin_path& path = **opened;
  const std::vector<std::string> addresses(2, path.address());
  all.connecting = path.connect(addresses, 0, deadline);
  const bundle_of own(op, 16);
  for (std::size_t i = 0; i < runs; ++i)
    all.running.push_back(path.run(own.bundle, deadline).error);
  return all;
}

constexpr operation all_operations[] = {operation::allreduce, operation::allgather,     operation::broadcast,
                                        operation::alltoall,  operation::reducescatter, operation::barrier};

std::string described(const std::string& reason) {
  return "the path faulty (" + std::string(faulty_path_library) + ") " + reason;
}

} // namespace

TEST_CASE("plugin: a failure of any library call fails its operation and all later ones") {
  const auto op = GENERATE(from_range(std::begin(all_operations), std::end(all_operations)));
  // Numbers that the header does not know count as failures too.
  const int status = GENERATE(int{FARANDOLE_PATH_LOST}, int{FARANDOLE_PATH_BROKEN}, 5, -1);
  abort_token abort;
  const deadline_and_abort deadline{abort, far(), "test deadline"};
  auto& plan = reset_plan();
  for (const std::size_t failing : {std::size_t{0}, step_of_connect, step_of_run, step_of_run + 1}) {
    plan = {failing, status, "rank 1 is gone", 0, 0, 0, 0, 0};
    const auto ended = played(op, deadline);
    CAPTURE(failing, status);
    const error expected{error_kind::disconnected, described("failed: rank 1 is gone")};
    CHECK(plan.closed == (failing == 0 ? 0 : 1));
    CHECK(ended.opening == (failing == 0 ? expected : error{}));
    CHECK(ended.connecting == (failing == step_of_connect ? expected : error{}));
    for (std::size_t run = 0; run < ended.running.size(); ++run)
      CHECK(ended.running[run] == (failing <= step_of_run + run ? expected : error{}));
  }
}

TEST_CASE("plugin: a missing completion ends at the deadline or with the generation") {
  const auto op = GENERATE(from_range(std::begin(all_operations), std::end(all_operations)));
  const bool told_to_give_up = GENERATE(false, true);
  auto& plan = reset_plan();
  for (const std::size_t failing : {step_of_connect, step_of_run, step_of_run + 1}) {
    abort_token abort;
    if (told_to_give_up)
      abort.raise();
    const deadline_and_abort deadline{abort, told_to_give_up ? far() : steady_clock::now(), "test deadline"};
    plan = {failing, 0, "", 1, 0, 0, 0, 0};
    const auto ended = played(op, deadline);
    CAPTURE(failing);
    const auto& hit = failing == step_of_connect ? ended.connecting : ended.running[failing - step_of_run];
    const error expected =
        told_to_give_up ? error{error_kind::disconnected, described("failed")}
                        : error{error_kind::timed_out, described("waited in vain: test deadline has passed")};
    CHECK(hit == expected);
    CHECK(ended.running.back() == expected);
    CHECK(plan.closed == 1);
  }
}

TEST_CASE("plugin: an operation that the library refuses fails, and later operations succeed") {
  const auto op = GENERATE(from_range(std::begin(all_operations), std::end(all_operations)));
  abort_token abort;
  reset_plan() = {step_of_run + 1, FARANDOLE_PATH_REFUSED, "not today", 0, 0, 0, 0, 0};
  const auto ended = played(op, {abort, far(), "test deadline"});
  CHECK(ended.running[0].text == "");
  CHECK(ended.running[1] == error{error_kind::unimplemented, described("refuses: not today")});
  CHECK(ended.running[2].text == "");
}

TEST_CASE("plugin: a library that reports more address bytes than allowed is not connected") {
  abort_token abort;
  auto& plan = reset_plan();
  plan.failing = step_of_introduce;
  plan.claimed_beyond = GENERATE(std::size_t{1}, SIZE_MAX / 2);
  const auto ended = played(operation::allreduce, {abort, far(), "test deadline"});
  CHECK_THAT(ended.connecting.text, Catch::StartsWith(described("introduces itself with ")) &&
                                        Catch::Contains("bytes, where 65536 are allowed"));
  for (const auto& reason : ended.running)
    CHECK(reason == ended.connecting);
  CHECK(plan.taken == step_of_connect); // the library was not asked to connect
  CHECK(plan.closed == 1);
}

TEST_CASE("plugin: a reason that is too long is truncated") {
  abort_token abort;
  const std::string endless(5000, 'x');
  reset_plan() = {step_of_run, FARANDOLE_PATH_BROKEN, endless.c_str(), 0, 0, 0, 0, 0};
  const auto ended = played(operation::allreduce, {abort, far(), "test deadline"});
  CHECK(ended.running[0].text == described("failed: " + endless.substr(0, 1023)));
}

TEST_CASE("plugin: a fault in one member's library fails the operations of that member only") {
  const auto op = GENERATE(from_range(std::begin(all_operations), std::end(all_operations)));
  path_options options;
  options.wishes.forced = "plugin";
  options.plugin_library = faulty_path_library;
  forked_members members({"a", "a"}, options, [op](forked_member& self) -> std::string {
    auto& plan = reset_plan();
    plan.text = "hit";
    plan.status = FARANDOLE_PATH_BROKEN;
    plan.failing = self.rank() == 1 ? 1 : SIZE_MAX;
    const bundle_of own(op, 16);
    std::string ends;
    for (std::size_t i = 0; i < runs; ++i)
      ends += self.run(own.bundle) ? "x" : ".";
    return ends;
  });
  CHECK(members.hear(0) == "...");
  CHECK(members.hear(1) == ".xx");
}

TEST_CASE("plugin: a library has one timeout more for each GiB of a bundle") {
  const auto& plan = reset_plan();
  auto opened = plugin_path::open(options_of_two());
  REQUIRE(opened);
  abort_token abort;
  bundle_of own(operation::allreduce, 16);
  const auto deadline_of = [&](std::size_t bytes) {
    own.bundle.parts[0].input_bytes = bytes; // this library does not look at them
    const auto begun = steady_clock::now();
    REQUIRE_FALSE((*opened)->run(own.bundle, {abort, begun + std::chrono::hours(1), "test deadline"}).error);
    return std::chrono::nanoseconds(plan.deadline_nanoseconds) - begun.time_since_epoch();
  };
  CHECK(deadline_of(16) <= std::chrono::hours(1));
  CHECK(deadline_of(std::size_t{2} << 30) > std::chrono::hours(2));
}
