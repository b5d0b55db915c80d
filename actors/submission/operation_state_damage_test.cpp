// Random words in the cells of the fast path while two members have an operation there: each operation ends with an
// error or with the right result. Tensors in cells carry no checksum, so the test does not change them.
#include <cstring>
#include <optional>
#include <random>

#include "actors/submission/operation_state_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

const error over{error_kind::disconnected, "the generation is over"};

struct scenario {
  const char* name;
  pair_shape shape;
  std::size_t writes;
};

constexpr std::size_t little = std::size_t{16} << 10;
constexpr scenario scenarios[] = {
    {"shown in cells", {operation::allreduce, 8, true}, 2'300},
    {"reduced by callers", {operation::allreduce, 5, false, 0, little}, 3'000},
    {"reduced by callers in chunks", {operation::allreduce, 1000, false, 0, little, true}, 2'000},
    {"through the slots", {operation::alltoall, 5, false, 0, little}, 3'000},
    {"written into places", {operation::alltoall, 20 << 10, false, std::size_t{2} << 20, little}, 2'000},
};

/// Two members, round after round until one of them fails.
class disturbed_pair {
public:
  explicit disturbed_pair(const scenario& scenario) : pair_(scenario.shape) {}

  /// Plays a round with one random write at one of its steps. Returns the number of operations that succeeded, or
  /// nothing if one of them succeeded with a wrong result.
  std::optional<int> play(std::mt19937_64& random) {
    const auto first = static_cast<std::uint32_t>(random() % 2);
    const std::uint32_t order[] = {first, 1 - first};
    auto left = random() % (pair_.shape.in_cells ? 5 : 8);
    const auto step = [&] {
      if (left-- == 0)
        write_somewhere(random);
    };
    for (const auto rank : order) {
      pair_.publish(rank, round_);
      step();
    }
    for (int turn = 0; turn < 12; ++turn)
      for (const auto rank : order) {
        pair_.operations[rank]->try_settle();
        step();
      }
    ++round_;
    for (const auto& operation : pair_.operations)
      if (!operation->end_on_fast_path(over) || !operation->settled())
        return std::nullopt;
    return outcome();
  }

private:
  std::optional<int> outcome() {
    int well = 0;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto& operation = *pair_.operations[rank];
      const bool right = operation.problem || result_is_right(rank);
      well += !operation.problem;
      operation.drop_handle();
      if (!right)
        return std::nullopt;
    }
    return well;
  }

  bool result_is_right(std::uint32_t rank) const { return pair_.result(rank) == pair_.wanted(rank); }

  void write_somewhere(std::mt19937_64& random) {
    constexpr std::size_t header = 24; // of a half cell; the tensor or the row descriptor follows
    const auto& cell = pair_.slots[0]->cell();
    const std::size_t all = shm_fast_path::footprint(cell.task().bytes);
    const std::size_t size = random() % 2 == 0 ? 4 : 8;
    auto* const base =
        pair_.segments[random() % 2]->fast_path(static_cast<std::uint32_t>(random() % 2)).data();
    auto at = random() % (all - size + 1);
    if (pair_.shape.in_cells) // mostly in the half of the current round
      at = (round_ + (random() % 8 == 0)) % 2 * all / 2 + random() % (header - size + 1);
    else if (random() % 2 == 0) // in a counter
      at = all - sizeof(member_progress) + random() % 3 * sizeof(shared_counter) + random() % 3 * 4;
    const auto word = random();
    if (random() % 2 == 0)
      std::memcpy(base + at, &word, size);
    else
      base[at + word % size] ^= std::byte{1} << (random() % 8);
  }

  pair_of_members pair_;
  std::uint64_t round_ = 0;
};

} // namespace

TEST_CASE("with a random word in a cell, an operation fails or ends with the right result",
          "[operation_state]") {
  std::mt19937_64 random(20'261'123);
  for (const auto& scenario : scenarios) {
    INFO(scenario.name);
    std::optional<disturbed_pair> pair;
    std::size_t well = 0, wrong = 0;
    for (std::size_t i = 0; i < scenario.writes; ++i) {
      if (!pair)
        pair.emplace(scenario);
      const auto ended = pair->play(random);
      wrong += !ended;
      well += ended == 2;
      if (ended != 2)
        pair.reset();
    }
    CHECK(wrong == 0);
    CHECK(well > 0);
    CHECK(well < scenario.writes);
  }
}
