// Feeds arbitrary words as the row descriptors of members, which every member can overwrite, to plan_rows().
// It must return a plan that writes only within the announced destinations, or an error. The first bytes
// select the operation, the number of members, the rank and the length of a row; one byte of each word
// selects the kind of number.
#include <limits>

#include "collectives/transport/shm/row_descriptor.hpp"
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

void check(const row_plan& plan, std::span<const row_descriptor> descriptors, std::size_t row_bytes) {
  const auto members = descriptors.size();
  require(plan.rows.size() == members && plan.received.size() == members && plan.sent.size() == members);
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  std::size_t total = 0, bytes = 0;
  for (std::size_t member = 0; member < members; ++member) {
    require(plan.rows[member] >= 0 && total <= most);
    total += static_cast<std::size_t>(plan.rows[member]);
    bytes += plan.received[member];
    require(plan.received[member] <= plan.longest && plan.sent[member] <= plan.longest);
  }
  // The sum of all rows fits into an extent.
  require(total <= most);
  require(plan.bytes == total * row_bytes && plan.bytes == bytes);
  require(plan.peer_writes.size() <= (plan.placed ? members : 0));
  // The plan accepts any destination of its owner; the result heap checks that it exists.
  for (const auto& peer_write : plan.peer_writes) {
    require(peer_write.member < members && peer_write.bytes > 0);
    const auto destination = descriptors[peer_write.member].destination();
    require(peer_write.bytes <= destination.bytes &&
            peer_write.at - destination.at <= destination.bytes - peer_write.bytes);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  const auto asked_operation = input.byte() % 2 == 0 ? operation::alltoall : operation::allgather;
  const auto members = static_cast<std::uint32_t>(1 + input.below(5));
  const auto rank = static_cast<std::uint32_t>(input.below(static_cast<std::int32_t>(members)));
  constexpr std::size_t lengths[] = {0, 1, 4, 4096, std::size_t{1} << 40, std::size_t{1} << 62};
  const auto row_bytes = input.among(lengths);
  std::vector<row_descriptor> descriptors(members, row_descriptor(members));
  for (auto& descriptor : descriptors)
    for (auto& word : descriptor.words())
      word = word_of(input);
  const auto plan = plan_rows(asked_operation, descriptors, rank, row_bytes);
  if (plan)
    check(*plan, descriptors, row_bytes);
  else
    require(!plan.error().text.empty());
  return 0;
}
