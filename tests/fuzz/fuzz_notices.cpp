// Any words where members show what they have for each other, in memory that every one of them can write: a
// plan comes out that copies to within the output it announces and nowhere else, or an error. The first bytes
// say which operation, how many members, whose plan, and how long a row is; of each word one byte says what
// kind of number it is.
#include <limits>

#include "collectives/paths/local/notice.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

std::uint64_t word_of(choices& input) {
  const auto kind = input.byte();
  if (kind < 160)
    return kind;
  std::uint64_t word = 0;
  for (int i = 0; i < 8; ++i)
    word = word << 8 | (i < 8 - kind % 9 ? 0 : input.byte());
  return kind % 2 == 0 ? word : ~word;
}

void check(const taking& plan, std::uint32_t rank, std::span<const notice> notices, std::size_t row_bytes) {
  const auto members = notices.size();
  require(plan.rows.size() == members);
  std::size_t total = 0;
  for (const auto rows : plan.rows) {
    require(rows >= 0 && total <= static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()));
    total += static_cast<std::size_t>(rows);
  }
  // All of them together are a count that an extent can hold.
  require(total <= static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()));
  require(plan.bytes == total * row_bytes);
  require(plan.pieces.size() == (plan.placed ? 1 : members) && plan.gifts.size() < members);
  for (const auto& piece : plan.pieces)
    require(piece.member < members && piece.at <= plan.bytes && piece.bytes <= plan.bytes - piece.at);
  // A place is where its owner says, wherever that is: the arena looks whether it has it.
  for (const auto& gift : plan.gifts)
    require(gift.member < members && gift.member != rank && gift.bytes > 0 &&
            gift.bytes <= notices[gift.member][2] &&
            gift.at - notices[gift.member][1] <= notices[gift.member][2] - gift.bytes);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  const auto what = input.byte() % 2 == 0 ? operation::alltoall : operation::allgather;
  const auto members = static_cast<std::uint32_t>(1 + input.below(5));
  const auto rank = static_cast<std::uint32_t>(input.below(static_cast<std::int32_t>(members)));
  constexpr std::size_t lengths[] = {0, 1, 4, 4096, std::size_t{1} << 40, std::size_t{1} << 62};
  const auto row_bytes = input.among(lengths);
  std::vector<notice> notices(members);
  for (auto& words : notices)
    for (std::size_t i = 0; i < notice_words(members); ++i)
      words.push_back(word_of(input));
  const auto plan = plan_taking(what, notices, rank, row_bytes);
  if (plan)
    check(*plan, rank, notices, row_bytes);
  else
    require(!plan.error().text.empty());
  return 0;
}
