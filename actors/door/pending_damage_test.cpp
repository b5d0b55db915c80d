// Random words in the cells of the board while two members have an operation there: each ends with an error
// or with the right result. Only the tensors that cells hold carry no checksum, and are left alone.
#include <cstring>
#include <optional>
#include <random>

#include "actors/door/pending_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

const error over{error_kind::disconnected, "the generation is over"};

struct scenario {
  const char* name;
  operation kind;
  std::int64_t floats; ///< in a row
  std::size_t arena_bytes;
  std::size_t writes;
};

constexpr scenario scenarios[] = {
    {"shown in cells", operation::allreduce, 8, 0, 2'300},
    {"read where it stands", operation::alltoall, 5, 0, 3'000},
    {"written into places", operation::alltoall, 20 << 10, std::size_t{2} << 20, 2'000},
};

/// Two members, round after round until one of them fails.
class disturbed_pair {
public:
  explicit disturbed_pair(const scenario& how) : how_(how), pair_(how.floats, how.arena_bytes, how.kind) {}

  /// A round, with one write at one of its steps. How many of the members' operations ended well, or nothing
  /// when one of them did so with a wrong result.
  std::optional<int> play(std::mt19937_64& random) {
    const auto first = static_cast<std::uint32_t>(random() % 2);
    const std::uint32_t order[] = {first, 1 - first};
    auto left = random() % 5;
    const auto step = [&] {
      if (left-- == 0)
        write_somewhere(random);
    };
    for (const auto rank : order) {
      pair_.sit(rank, round_);
      step();
    }
    for (const auto rank : order) {
      pair_.operations[rank]->try_settle();
      step();
    }
    pair_.operations[first]->try_settle();
    step();
    ++round_;
    for (const auto& each : pair_.operations)
      if (!each->end_on_board(over) || !each->settled())
        return std::nullopt;
    return outcome();
  }

private:
  std::optional<int> outcome() {
    int well = 0;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto& operation = *pair_.operations[rank];
      const bool right = operation.problem || came(rank);
      well += !operation.problem;
      operation.let_go();
      if (!right)
        return std::nullopt;
    }
    return well;
  }

  bool came(std::uint32_t rank) const {
    const auto row = static_cast<std::size_t>(how_.floats);
    if (pair_.shows_bytes()) {
      std::vector<float> wanted(row, 10);
      wanted.resize(2 * row, 12);
      return pair_.sums[rank] == wanted;
    }
    std::vector<float> wanted(row, static_cast<float>(rank));
    wanted.resize(2 * row, static_cast<float>(10 + rank));
    return pair_.result(rank) == wanted;
  }

  void write_somewhere(std::mt19937_64& random) {
    constexpr std::size_t header = 24; // of a half; then comes the notice, or the tensor
    const auto& cell = pair_.seats[0]->cell();
    const std::size_t half = board::footprint(cell.task().bytes) / 2;
    const std::size_t room = pair_.shows_bytes() ? header : header + cell.task().bytes;
    const std::size_t size = random() % 2 == 0 ? 4 : 8;
    auto* const base = pair_.windows[random() % 2]->board(static_cast<std::uint32_t>(random() % 2)).data();
    // Mostly where the current round stands.
    const auto at = (round_ + (random() % 8 == 0)) % 2 * half + random() % (room - size + 1);
    const auto word = random();
    if (random() % 2 == 0)
      std::memcpy(base + at, &word, size);
    else
      base[at + word % size] ^= std::byte{1} << (random() % 8);
  }

  const scenario& how_;
  pair_of_members pair_;
  std::uint64_t round_ = 0;
};

} // namespace

TEST_CASE("a random word in a cell makes an operation fail, or it ends with the right result", "[pending]") {
  std::mt19937_64 random(20'261'123);
  for (const auto& how : scenarios) {
    INFO(how.name);
    std::optional<disturbed_pair> pair;
    std::size_t well = 0, wrong = 0;
    for (std::size_t i = 0; i < how.writes; ++i) {
      if (!pair)
        pair.emplace(how);
      const auto ended = pair->play(random);
      wrong += !ended;
      well += ended == 2;
      if (ended != 2)
        pair.reset();
    }
    CHECK(wrong == 0);
    CHECK(well > 0);
    CHECK(well < how.writes);
  }
}
