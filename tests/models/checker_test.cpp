// Tests the checker with the examples of the standard: it must find exactly the results that the memory model
// allows.
#include <catch2/catch.hpp>

#include <memory>
#include <set>
#include <tuple>

#include "tests/models/checker.hpp"

using namespace farandole::models;

namespace {

constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
               release = std::memory_order_release, acq_rel = std::memory_order_acq_rel,
               seq_cst = std::memory_order_seq_cst;

/// The variables that the threads of a litmus test share, and the values that they read.
struct litmus {
  atomic<int> x, y;
  int a = -1, b = -1, c = -1, d = -1;
};
using results = std::set<std::tuple<int, int, int, int>>;

/// Every combination of a, b, c and d at the end of an execution.
template <class... Threads>
results all_results(const Threads&... threads) {
  results all;
  const auto found = explore([&] {
    auto state = std::make_shared<litmus>();
    scenario current;
    (current.threads.push_back([state, threads] { threads(*state); }), ...);
    current.at_end = [state, &all] { all.insert({state->a, state->b, state->c, state->d}); };
    return current;
  });
  CHECK(found.failure.empty());
  return all;
}

results store_buffering(std::memory_order stores, std::memory_order loads) {
  return all_results(
      [=](litmus& m) {
        m.x.store(1, stores);
        m.a = m.y.load(loads);
      },
      [=](litmus& m) {
        m.y.store(1, stores);
        m.b = m.x.load(loads);
      });
}

results message_passing(std::memory_order store, std::memory_order load) {
  return all_results(
      [=](litmus& m) {
        m.x.store(1, relaxed);
        m.y.store(1, store);
      },
      [=](litmus& m) {
        m.a = m.y.load(load);
        m.b = m.x.load(relaxed);
      });
}

} // namespace

TEST_CASE("only sequentially consistent accesses prevent both threads from missing the other's store") {
  const auto both_missed = [](const results& all) { return all.count({0, 0, -1, -1}) > 0; };
  CHECK(store_buffering(seq_cst, seq_cst).size() == 3);
  CHECK_FALSE(both_missed(store_buffering(seq_cst, seq_cst)));
  CHECK(both_missed(store_buffering(release, seq_cst)));
  CHECK(both_missed(store_buffering(seq_cst, acquire)));
  CHECK(store_buffering(relaxed, relaxed).size() == 4);
}

TEST_CASE("sequentially consistent fences order relaxed accesses around them") {
  const auto with = [](std::memory_order order) {
    return all_results(
        [=](litmus& m) {
          m.x.store(1, relaxed);
          fence(order);
          m.a = m.y.load(relaxed);
        },
        [=](litmus& m) {
          m.y.store(1, relaxed);
          fence(order);
          m.b = m.x.load(relaxed);
        });
  };
  CHECK(with(seq_cst).size() == 3);
  CHECK(with(acq_rel).size() == 4);
}

TEST_CASE("a fence on one side pairs with sequentially consistent accesses on the other") {
  const auto all = all_results(
      [](litmus& m) {
        m.x.store(1, relaxed);
        fence(seq_cst);
        m.a = m.y.load(relaxed);
      },
      [](litmus& m) {
        m.y.store(1, seq_cst);
        m.b = m.x.load(seq_cst);
      });
  CHECK(all.count({0, 0, -1, -1}) == 0);
}

TEST_CASE("a message is passed by release and acquire, and by no weaker orders") {
  CHECK(message_passing(release, acquire).count({1, 0, -1, -1}) == 0);
  CHECK(message_passing(release, acquire).size() == 3);
  CHECK(message_passing(relaxed, acquire).count({1, 0, -1, -1}) == 1);
  CHECK(message_passing(release, relaxed).count({1, 0, -1, -1}) == 1);
}

TEST_CASE("a message is passed through a read-modify-write of another thread") {
  const auto all = all_results(
      [](litmus& m) {
        m.x.store(1, relaxed);
        m.y.store(1, release);
      },
      [](litmus& m) { m.y.fetch_add(1, relaxed); },
      [](litmus& m) {
        m.a = m.y.load(acquire);
        m.b = m.x.load(relaxed);
      });
  CHECK(all.count({2, 0, -1, -1}) == 0);
  CHECK(all.count({2, 1, -1, -1}) == 1);
}

TEST_CASE("a thread never reads an older value of a location after a newer one") {
  const auto all =
      all_results([](litmus& m) { m.x.store(1, relaxed); }, [](litmus& m) { m.x.store(2, relaxed); },
                  [](litmus& m) {
                    m.a = m.x.load(relaxed);
                    m.b = m.x.load(relaxed);
                  });
  CHECK(all.count({1, 0, -1, -1}) == 0);
  CHECK(all.count({1, 2, -1, -1}) == 1);
  CHECK(all.count({2, 1, -1, -1}) == 1);
}

TEST_CASE("weak stores to two locations may take effect in opposite orders") {
  const auto last_values = [](std::memory_order order) {
    results all;
    explore([&] {
      auto m = std::make_shared<litmus>();
      scenario current;
      current.threads = {[m, order] {
                           m->x.store(1, order);
                           m->y.store(2, order);
                         },
                         [m, order] {
                           m->y.store(1, order);
                           m->x.store(2, order);
                         }};
      current.at_end = [m, &all] { all.insert({m->x.load(relaxed), m->y.load(relaxed), 0, 0}); };
      return current;
    });
    return all;
  };
  CHECK(last_values(release).count({1, 1, 0, 0}) == 1);
  CHECK(last_values(seq_cst).count({1, 1, 0, 0}) == 0);
}

TEST_CASE("additions are never lost, and no two exchanges of one value both succeed") {
  const auto found = explore([] {
    auto m = std::make_shared<litmus>();
    scenario current;
    for (int i = 0; i < 3; ++i)
      current.threads.push_back([m] {
        m->x.fetch_add(1, relaxed);
        int none = 0;
        if (m->y.compare_exchange_strong(none, 1, relaxed, relaxed))
          m->x.fetch_add(10, relaxed);
      });
    current.at_end = [m] { require(m->x.load(relaxed) == 13, "3 additions and 1 exchange"); };
    return current;
  });
  CHECK(found.failure == "");
  CHECK(found.executions > 1);
}

TEST_CASE("unordered accesses of two threads to plain memory are reported") {
  struct cell {
    plain data;
    atomic<int> ready;
  };
  const auto with = [](std::memory_order order) {
    return explore([order] {
      auto m = std::make_shared<cell>();
      scenario current;
      current.threads = {[m, order] {
                           m->data.write(7);
                           m->ready.store(1, order);
                         },
                         [m] {
                           if (m->ready.load(acquire))
                             require(m->data.read() == 7, "the value that was written");
                         }};
      return current;
    });
  };
  CHECK(with(release).failure == "");
  CHECK(with(relaxed).failure == "two threads touch plain memory at the same time");
}

TEST_CASE("a sleeping thread that no thread wakes is reported") {
  const auto with = [](bool wakes) {
    return explore([wakes] {
      auto m = std::make_shared<litmus>();
      scenario current;
      current.threads = {[m] {
                           while (m->x.load(relaxed) == 0)
                             sleep_while(m->x, ~std::uint64_t{0}, 0);
                         },
                         [m, wakes] {
                           m->x.store(1, relaxed);
                           if (wakes)
                             wake_sleepers(m->x);
                         }};
      return current;
    });
  };
  CHECK(with(true).failure == "");
  CHECK(with(false).failure == "threads sleep that nobody will wake");
}

TEST_CASE("a weakening applies to the operation at the given place in the source") {
  struct cell {
    plain data;
    atomic<int> ready;
  };
  const program which = [] {
    auto m = std::make_shared<cell>();
    scenario current;
    current.threads = {[m] {
                         m->data.write(7);
                         m->ready.store(1, release);
                       },
                       [m] {
                         if (m->ready.load(acquire))
                           m->data.read();
                       }};
    return current;
  };
  const auto found = explore(which);
  REQUIRE(found.operations.size() == 2);
  for (const auto& [operation_site, order] : found.operations) {
    CHECK(weaker_orders(operation_site.kind, order) == std::vector{relaxed});
    CHECK_FALSE(explore(which, weakening{operation_site, relaxed}).failure.empty());
  }
}
