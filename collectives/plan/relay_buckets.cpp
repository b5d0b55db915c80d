// A relay's part in buckets: what comes in one is its ids, asked for by all who are meant, and what is ready
// below waits on the shelf for the rest of its own.
#include "collectives/plan/breach.hpp"
#include "collectives/plan/relay.hpp"

namespace farandole {

error relay::unknown_bucket(std::int32_t sender, const std::vector<std::uint32_t>& buckets) const {
  for (const auto bucket : buckets)
    if (!shelf_.find(bucket))
      return breach::of(sender, breach::unplanned_bucket);
  return {};
}

void relay::ask_for_all(const std::vector<std::uint32_t>& buckets, const member_mask& who,
                        std::chrono::nanoseconds now) {
  for (const auto bucket : buckets)
    // What happens here may end the bucket, and make the shelf forget another one that the same message
    // names. No member sends that; who does is not heard.
    if (const auto* known = shelf_.find(bucket))
      for (const auto ids = *known; auto id : ids)
        ask(id, who, now);
}

// All who have not joined have asked for it; those of `who` have not gone up.
void relay::ready(std::uint32_t id, const member_mask& who, std::chrono::nanoseconds now) {
  if (!shelf_.takes(id) || !joined_.empty())
    return emit(id, who);
  if (!(who == everyone_)) {
    emit_all(shelf_.let_go(id));
    return emit(id, who);
  }
  if (const auto whole = shelf_.put(id, now))
    out_.buckets.push_back(*whole);
}

// All below have asked for these.
void relay::emit_all(const std::vector<std::uint32_t>& ids) {
  for (auto id : ids)
    emit(id, everyone_);
}

} // namespace farandole
