#include "collectives/transport/connections/handshake_table.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;

namespace {

using reason = handshake_table::reason;
using eviction = handshake_table::eviction;
using evictions = std::vector<eviction>;

const handshake_table::time_point start{};
const handshake_limits small{.connections = 4, .share = 3, .shaking = 2};

} // namespace

TEST_CASE("a connection without a hello is evicted after one second") {
  handshake_table table(small);
  CHECK_FALSE(table.next_due());
  CHECK_FALSE(table.accept(1, "a", start));
  CHECK_FALSE(table.accept(2, "b", start + 300ms));
  CHECK(table.next_due() == start + 1s);
  CHECK(table.overdue(start + 999ms).empty());
  CHECK(table.overdue(start + 1s) == evictions{{1, reason::no_client_hello}});
  CHECK(table.size() == 1);
  CHECK(table.next_due() == start + 1300ms);
}

TEST_CASE("a handshake begins after the hello has arrived, and has its own deadline") {
  handshake_table table(small);
  table.accept(1, "a", start);
  CHECK_FALSE(table.begin_next(start));
  table.ready(1);
  CHECK(table.begin_next(start + 900ms) == 1);
  CHECK_FALSE(table.begin_next(start + 900ms));
  CHECK(table.next_due() == start + 10900ms);
  CHECK(table.overdue(start + 10900ms) == evictions{{1, reason::no_proof}});
  CHECK(table.size() == 0);
}

TEST_CASE("a full table evicts the oldest silent connection, and keeps connections that have sent a hello") {
  handshake_table table(small);
  table.accept(1, "a", start);
  table.ready(1);
  table.accept(2, "b", start);
  table.accept(3, "c", start);
  table.accept(4, "d", start);
  CHECK(table.accept(5, "e", start) == eviction{2, reason::full});
  CHECK(table.accept(6, "f", start) == eviction{3, reason::full});
  CHECK(table.size() == 4);
}

TEST_CASE("a full table without silent connections evicts the oldest connection") {
  handshake_table table(small);
  for (handshake_table::connection i = 1; i <= 4; ++i) {
    table.accept(i, "a", start);
    table.ready(i);
  }
  CHECK(table.accept(5, "b", start) == eviction{1, reason::full});
}

TEST_CASE("a source that exceeds its share of silent connections loses only its own oldest connections") {
  handshake_table table(small);
  table.accept(1, "b", start);
  for (handshake_table::connection i = 2; i <= 4; ++i)
    table.accept(i, "a", start);
  CHECK(table.accept(5, "a", start) == eviction{2, reason::share});
  CHECK(table.accept(6, "a", start) == eviction{3, reason::share});
  CHECK(table.accept(7, "b", start) == eviction{1, reason::full});
}

TEST_CASE("handshakes in progress do not count towards the limit of waiting connections") {
  handshake_table table(small);
  for (handshake_table::connection i = 1; i <= 2; ++i) {
    table.accept(i, "a", start);
    table.ready(i);
    REQUIRE(table.begin_next(start) == i);
  }
  for (handshake_table::connection i = 3; i <= 6; ++i)
    CHECK_FALSE(table.accept(i, std::to_string(i), start));
  CHECK(table.accept(7, "b", start) == eviction{3, reason::full});
}

TEST_CASE("expected sources are served before other sources, and evicted after them") {
  handshake_table table(small);
  table.expect({"member"});
  table.accept(1, "member", start);
  table.accept(2, "a", start);
  table.accept(3, "b", start);
  table.accept(4, "member", start);
  CHECK(table.accept(5, "c", start) == eviction{2, reason::full});
  CHECK(table.accept(6, "d", start) == eviction{3, reason::full});
  for (handshake_table::connection i : {5, 6, 4, 1})
    table.ready(i);
  CHECK(table.begin_next(start) == 1);
  CHECK(table.begin_next(start) == 4);
  CHECK_FALSE(table.begin_next(start));
}

TEST_CASE("the source with the fewest handshakes in progress is served next") {
  handshake_table table({.connections = 8, .share = 8, .shaking = 3});
  for (handshake_table::connection i = 1; i <= 3; ++i)
    table.accept(i, "a", start);
  table.accept(4, "b", start);
  for (handshake_table::connection i = 1; i <= 4; ++i)
    table.ready(i);
  CHECK(table.begin_next(start) == 1);
  CHECK(table.begin_next(start) == 4);
  CHECK(table.begin_next(start) == 2);
}

TEST_CASE("a handshake that takes more than a second is evicted if other connections wait") {
  handshake_table table(small);
  for (handshake_table::connection i = 1; i <= 3; ++i) {
    table.accept(i, "a", start);
    table.ready(i);
    table.begin_next(start + i * 10ms);
  }
  CHECK(table.next_due() == start + 1010ms);
  CHECK(table.overdue(start + 1010ms) == evictions{{1, reason::slow_and_contended}});
  CHECK(table.begin_next(start + 1010ms) == 3);
  CHECK(table.next_due() == start + 10020ms); // no connection waits any more
}

TEST_CASE("a removed connection occupies no place in the table") {
  handshake_table table(small);
  table.accept(1, "a", start);
  table.ready(1);
  CHECK(table.begin_next(start) == 1);
  table.remove(1);
  table.remove(1);
  table.ready(1);
  CHECK(table.size() == 0);
  CHECK_FALSE(table.next_due());
}

TEST_CASE("waiting connections use at most an eighth of the process's descriptors") {
  const auto few = handshake_limits{}.within(1024);
  CHECK(few.connections == 128);
  CHECK(few.share == 64);
  CHECK(handshake_limits{}.within(1 << 20).connections == handshake_limits{}.connections);
  CHECK(handshake_limits{}.within(1 << 20).share == handshake_limits{}.share);
  CHECK(handshake_limits{}.within(10).connections == 16);
}
