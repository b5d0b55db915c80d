// Reduces small tensors that travel inside their requests (negotiation.capnp, "Inline values"). A member uses
// inline_rules to decide which of its tensors it sends inline. On the leader, inline_reduction keeps the values.
// When a tensor is ready and all members have sent its value, the leader reduces the values and sends the result in
// the schedule, so that no data path moves the tensor. If a value is missing, the others are dropped and the tensor
// moves in a bundle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/negotiation/negotiation_result.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// Decides which tensors travel inline. Members need not agree: the leader falls back to a bundle.
struct inline_rules {
  std::size_t limit_bytes = 0;   ///< largest tensor; 0: none
  std::size_t message_bytes = 0; ///< maximum for all inline tensors of one message

  /// The rules for a set of `members` members. The bytes that the leader receives and sends for one tensor grow
  /// with their number, so the limit of a large set is below `setting_bytes`.
  static inline_rules of(std::size_t setting_bytes, std::size_t members);

  /// Whether a tensor in host memory, of this signature and size, may be added to a message that already carries `carried_bytes`.
  bool admit(const signature& signature, std::size_t bytes, std::size_t carried_bytes) const;
};

/// One object serves one process set in one generation, on its leader.
class inline_reduction {
public:
  /// `members`: global ranks, by position in the set. `limit_bytes`: largest tensor; 0: none is expected.
  inline_reduction(std::vector<std::int32_t> members, std::size_t limit_bytes)
      : members_(std::move(members)), limit_bytes_(limit_bytes) {}

  /// Keeps the values that the member `rank` (global) sent with a message. Returns an error, and keeps nothing, if
  /// the sender is not a member, if the message does not request the id of a value or has two values for it, or if
  /// a value is above the limit.
  error take(std::int32_t rank, const requests& message);

  /// Moves the tensors for which all members have sent values from `decided.ready` to `decided.results`, in their
  /// order. Drops the values of all other tensors that are ready or forgotten, and the value of each member that is
  /// asked for its full request. A value of the wrong length is a breach by the member that sent it.
  void complete(negotiation_result& decided);

  /// Number of values that are kept, for tests.
  std::size_t kept() const;

private:
  /// The values received for one id, by position in the set.
  using row = std::vector<std::optional<std::vector<std::byte>>>;

  std::optional<std::size_t> position_of(std::int32_t rank) const;
  bool reduced(const ready_tensor& tensor, negotiation_result& decided) const;

  std::vector<std::int32_t> members_;
  std::size_t limit_bytes_;
  std::unordered_map<std::uint32_t, row> rows_;
};

} // namespace farandole
