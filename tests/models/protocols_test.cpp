// The lock-free protocols between the members of one host: no execution breaks a protocol, and for every
// weaker memory order some execution does.
#include <catch2/catch.hpp>

#include <memory>
#include <string_view>
#include <vector>

#include "collectives/transport/shm/fast_path_mark.hpp"
#include "collectives/transport/shm/round_outcome.hpp"
#include "collectives/transport/wait/lock_free.hpp"
#include "tests/models/checker.hpp"

using namespace farandole;
using namespace farandole::models;

namespace {

using mark = basic_fast_path_mark<model_atomics>;
using counter = basic_shared_counter<model_atomics>;
using decision = basic_round_decision<model_atomics>;

constexpr std::uint32_t id = 5;
constexpr std::uint64_t published(std::uint64_t round) {
  return make_word(id, round, cell_state::published);
}
constexpr std::uint64_t retracted(std::uint64_t round) {
  return make_word(id, round, cell_state::retracted);
}
constexpr std::uint64_t low_half = 0xffff'ffff;

void show(mark& own, std::uint64_t word) {
  own.show(word, [&own] { wake_sleepers(own.word); });
}
void publish(counter& own, std::uint32_t next) {
  own.publish(next, [&own] { wake_sleepers(own.value); });
}

/// futex_wait::until() without a deadline: a sleep that only a deadline would end counts as endless.
template <class Word, class Waiters, class Ready>
void wait_until(const Word& word, Waiters& waiters, const Ready& ready) {
  while (!ready())
    announced_sleep<model_atomics>(
        word, waiters, ready,
        [&](std::uint32_t value) {
          sleep_while(word, low_half, value);
          return true;
        },
        true);
}
void wait_for(mark& theirs, std::uint64_t wanted) {
  wait_until(theirs.word, theirs.waiters, [&] { return theirs.has_come(wanted); });
}
void wait_for(counter& theirs, std::uint32_t wanted) {
  wait_until(theirs.value, theirs.waiters, [&] { return theirs.has_reached(wanted); });
}

template <class Shared, class... Threads>
scenario threads_on(const std::shared_ptr<Shared>& shared, const Threads&... threads) {
  scenario current;
  (current.threads.push_back([shared, threads] { threads(*shared); }), ...);
  return current;
}

// ---- the models ----------------------------------------------------------------------------------

/// A thread that sleeps until a mark shows a round is woken, and reads the bytes that the owner of the mark
/// wrote before.
scenario a_sleeper_is_woken() {
  struct shared {
    mark fast_path;
    plain tensor;
  };
  return threads_on(
      std::make_shared<shared>(),
      [](shared& m) {
        m.tensor.write(7);
        show(m.fast_path, published(0));
      },
      [](shared& m) {
        wait_for(m.fast_path, published(0));
        require(m.tensor.read() == 7, "the bytes that were shown");
      });
}

/// A channel of the segment: a slot is overwritten only after its reader has released it.
scenario a_slot_is_overwritten_after_its_release() {
  struct shared {
    counter packed, released;
    plain slot;
  };
  return threads_on(
      std::make_shared<shared>(),
      [](shared& m) {
        for (std::uint32_t step = 0; step < 2; ++step) {
          wait_for(m.released, step);
          m.slot.write(step + 1);
          publish(m.packed, step + 1);
        }
      },
      [](shared& m) {
        for (std::uint32_t step = 0; step < 2; ++step) {
          wait_for(m.packed, step + 1);
          require(m.slot.read() == step + 1, "the bytes of this step");
          publish(m.released, step + 1);
        }
      });
}

/// Rounds on the fast path: no member writes a half that another member still reads, and no member reads the
/// bytes of an older round.
scenario two_halves_are_enough() {
  struct shared {
    mark marks[2][2];
    plain halves[2][2];
  };
  const auto member = [](std::size_t rank) {
    return [rank](shared& m) {
      for (std::uint64_t round = 0; round < 3; ++round) {
        const auto half = round & 1;
        auto& own = m.marks[rank][half];
        own.hide(make_word(id, round, cell_state::empty));
        m.halves[rank][half].write(10 * rank + round);
        own.show(published(round), [&own] { wake_sleepers(own.word); });
        auto& theirs = m.marks[1 - rank][half];
        if (!theirs.has_come(published(round)))
          return; // the member would wait; its later steps do not depend on the start of the wait
        require(m.halves[1 - rank][half].read() == 10 * (1 - rank) + round,
                "the other's bytes of this round");
        require(theirs.still_stands(published(round)), "nobody is ahead by two rounds");
      }
    };
  };
  return threads_on(std::make_shared<shared>(), member(0), member(1));
}

/// If a word is unchanged after a read, the bytes read belong to that word, however the owner retracts it.
template <class TakeBack>
scenario retracted_bytes_are_not_used(const TakeBack& take_back) {
  struct shared {
    mark fast_path{make_word(id, 0, cell_state::published), 0, 0};
    models::atomic<int> bytes[2]{1, 1};
  };
  return threads_on(
      std::make_shared<shared>(),
      [take_back](shared& m) {
        take_back(m.fast_path);
        for (auto& byte_count : m.bytes)
          byte_count.store(2, std::memory_order_relaxed);
      },
      [](shared& m) {
        const auto first = m.bytes[1].load(std::memory_order_relaxed);
        const auto second = m.bytes[0].load(std::memory_order_relaxed);
        if (m.fast_path.still_stands(published(0)))
          require(first == 1 && second == 1, "the bytes that the word told of");
      });
}

/// The outcome of a round is the same for all members, and a member that learns that it is complete may read
/// all cells.
scenario a_round_has_one_outcome() {
  struct shared {
    mark marks[3];
    plain cells[3];
    decision outcome;
    round_outcome ends[3]{};
  };
  const auto current = std::make_shared<shared>();
  const auto member = [](std::size_t rank, bool leaves) {
    return [rank, leaves](shared& m) {
      m.cells[rank].write(rank + 1);
      show(m.marks[rank], published(0));
      bool all_arrived = !leaves;
      for (std::size_t i = 0; i < 3 && all_arrived; ++i)
        all_arrived = m.marks[i].has_come(published(0));
      m.ends[rank] = m.outcome.decide(id, 0, all_arrived ? round_outcome::complete : round_outcome::given_up);
      if (m.ends[rank] == round_outcome::complete)
        for (std::size_t i = 0; i < 3; ++i)
          require(m.cells[i].read() == i + 1, "the cells of all members");
    };
  };
  auto threads = threads_on(current, member(0, false), member(1, true), member(2, true));
  threads.at_end = [current] {
    require(current->ends[0] == current->ends[1] && current->ends[1] == current->ends[2],
            "one outcome for all members");
  };
  return threads;
}

/// A thread that was interrupted in a round learns its outcome although its half has been decided for a later
/// round since.
scenario an_earlier_outcome_stands() {
  struct shared {
    plain cell;
    decision outcome;
  };
  return threads_on(
      std::make_shared<shared>(),
      [](shared& m) {
        m.cell.write(3);
        if (m.outcome.decide(id, 0, round_outcome::complete) == round_outcome::complete)
          m.outcome.decide(id, 2, round_outcome::complete);
      },
      [](shared& m) {
        if (m.outcome.decide(id, 0, round_outcome::given_up) == round_outcome::complete)
          require(m.cell.read() == 3, "what a complete round showed");
      });
}

/// A member that begins to write outputs and a member that retracts the round agree on one of the two.
scenario beginning_and_retracting_exclude_each_other() {
  struct shared {
    decision beginning;
    bool began = false, left = false;
  };
  const auto all = std::make_shared<shared>();
  auto played = threads_on(
      all,
      [](shared& m) {
        m.began = m.beginning.decide(id, 0, round_outcome::complete) == round_outcome::complete;
      },
      [](shared& m) {
        m.left = m.beginning.decide(id, 0, round_outcome::given_up) == round_outcome::given_up;
      });
  played.at_end = [all] { require(all->began != all->left, "one of the two, and not both"); };
  return played;
}

/// The bytes that a member writes into another member's result have arrived when its counter says so.
scenario a_peer_write_arrives_whole() {
  struct shared {
    counter packed;
    plain bytes;
  };
  return threads_on(
      std::make_shared<shared>(),
      [](shared& m) {
        m.bytes.write(9);
        publish(m.packed, 1);
      },
      [](shared& m) {
        if (m.packed.has_reached(1))
          require(m.bytes.read() == 9, "the bytes that were written");
      });
}

struct model {
  const char* claim;
  program play;
};

std::vector<model> all_models() {
  return {
      {"a sleeper is woken", a_sleeper_is_woken},
      {"a slot is overwritten after its release", a_slot_is_overwritten_after_its_release},
      {"two halves are enough", two_halves_are_enough},
      {"hidden bytes are not used",
       [] {
         return retracted_bytes_are_not_used(
             [](mark& own) { own.hide(make_word(id, 2, cell_state::empty)); });
       }},
      {"a round has one outcome", a_round_has_one_outcome},
      {"an earlier outcome stands", an_earlier_outcome_stands},
      {"beginning and retracting exclude each other", beginning_and_retracting_exclude_each_other},
      {"a peer write arrives whole", a_peer_write_arrives_whole},
  };
}

bool is_of_product(const site& operation_site) {
  return std::string_view(operation_site.file).find("collectives/") != std::string_view::npos;
}

} // namespace

TEST_CASE("no execution breaks a lock-free protocol") {
  for (const auto& all_model : all_models()) {
    INFO(all_model.claim);
    const auto found = explore(all_model.play);
    CHECK(found.failure == "");
    CHECK(found.executions > 1);
  }
}

TEST_CASE("every weaker memory order breaks a lock-free protocol") {
  const auto models = all_models();
  std::map<site, std::pair<std::memory_order, std::vector<const model*>>> operations;
  for (const auto& model : models)
    for (const auto& [operation_site, order] : explore(model.play).operations)
      if (is_of_product(operation_site)) {
        operations[operation_site].first = order;
        operations[operation_site].second.push_back(&model);
      }
  std::size_t tried = 0;
  for (const auto& [operation_site, used] : operations)
    for (const auto weaker : weaker_orders(operation_site.kind, used.first)) {
      std::string broken;
      for (const auto* model : used.second)
        if (broken.empty())
          broken = explore(model->play, weakening{operation_site, weaker}).failure;
      INFO(to_string(operation_site) << ": " << to_string(used.first) << " weakened to "
                                     << to_string(weaker));
      CHECK_FALSE(broken.empty());
      ++tried;
    }
  CHECK(tried > 15);
}
