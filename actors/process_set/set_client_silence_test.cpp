// A set client whose operations wait for a member that makes no progress, on virtual time.
#include <catch2/catch.hpp>

#include "actors/process_set/set_client_testing.hpp"

using namespace farandole;
using namespace std::chrono_literals;
using farandole::testing::set_client_bench;

namespace {

/// The set client of a process set that depends on ranks 0 and 2.
class bench : public set_client_bench {
public:
  bench() : set_client_bench(setup()) {}

  void submit() { set_client_bench::submit("a", scalar()); }
  void end_all() { tell(generation_over{{error_kind::shut_down, "over"}}); }
  /// Reports that the rank has been silent for an hour, and repeats the report during `time`.
  void silent(std::int32_t rank, std::chrono::nanoseconds time) {
    for (auto passed = 0ns; passed < time; passed += period) {
      tell(processes_silent{{{rank, 1h}}});
      REQUIRE(world().run_for(period));
    }
  }

  static constexpr std::chrono::milliseconds period{500};

private:
  static set_client_setup setup() {
    set_client_setup setup;
    setup.self = {1, 1, 2};
    setup.stuck.operation_timeout = 8s;
    setup.depends_on = {0, 2};
    return setup;
  }
};

} // namespace

TEST_CASE("an operation that waits for a silent member is reported after the operation timeout, not before") {
  bench table;
  table.submit();
  table.silent(0, 8s);
  CHECK(table.held_up_by.empty());
  table.silent(0, 1s);
  REQUIRE_FALSE(table.held_up_by.empty());
  CHECK(table.held_up_by.front() == 0);
}

TEST_CASE("a silent member is not reported if no operation waits, or if the set does not depend on it") {
  bench table;
  table.silent(0, 1h);
  CHECK(table.held_up_by.empty());
  table.submit();
  table.silent(1, 1h);
  CHECK(table.held_up_by.empty());
}

TEST_CASE("only the time in which a member is silent counts towards the operation timeout") {
  bench table;
  table.submit();
  table.silent(2, 7s);
  REQUIRE(table.world().run_for(1h)); // the rank makes progress again
  table.silent(2, 7s);
  CHECK(table.held_up_by.empty());
  table.silent(2, 2s);
  CHECK_FALSE(table.held_up_by.empty());
}

TEST_CASE("an operation that has ended is not reported as held up") {
  bench table;
  table.submit();
  table.silent(2, 7s);
  table.end_all();
  table.silent(2, 1h);
  CHECK(table.held_up_by.empty());
}
