// Small tensors that travel inside the requests for them (negotiation.capnp, "Inline values"). A member
// decides by inline_rules which of its tensors it sends so. On the leader, inline_reduction keeps what came,
// and when a tensor is ready and all members have sent theirs, it reduces them: the result stands in the
// schedule, and no data path moves the tensor. What is incomplete is dropped, and the tensor goes into a
// bundle.
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

/// Which tensors travel inline. Members need not agree: the leader falls back to a bundle.
struct inline_rules {
  std::size_t limit_bytes = 0;   ///< largest tensor; 0: none
  std::size_t message_bytes = 0; ///< of all tensors that travel in one message

  /// For a set of so many members. What the leader receives and sends for one tensor grows with them, so
  /// that the limit of a large set is below `setting_bytes`.
  static inline_rules of(std::size_t setting_bytes, std::size_t members);

  /// Whether a tensor of this signature and size goes along in a message that carries `carried_bytes` so far.
  bool admit(const signature& signature, std::size_t bytes, std::size_t carried_bytes) const;
};

/// One object serves one process set in one generation, on its leader.
class inline_reduction {
public:
  /// `members`: global ranks, by position in the set. `limit_bytes`: largest tensor; 0: none is expected.
  inline_reduction(std::vector<std::int32_t> members, std::size_t limit_bytes)
      : members_(std::move(members)), limit_bytes_(limit_bytes) {}

  /// Keeps the values that the member `rank` (global) sent with a message. An error, and nothing is kept,
  /// when the sender is no member, a value's id is not among those that the message asks for or comes twice,
  /// or a value is above the limit.
  error take(std::int32_t rank, const requests& message);

  /// Moves the tensors that all members have sent from `decided.ready` to `decided.results`, in their order.
  /// Forgets what was sent of all others that are ready, dropped or asked for again. A value whose length is
  /// not the tensor's is a breach of the member that sent it.
  void complete(negotiation_result& decided);

  /// How many values are kept, for tests.
  std::size_t kept() const;

private:
  /// What has come for one id, by position in the set.
  using row = std::vector<std::optional<std::vector<std::byte>>>;

  std::optional<std::size_t> position_of(std::int32_t rank) const;
  bool reduced(const ready_tensor& tensor, negotiation_result& decided) const;

  std::vector<std::int32_t> members_;
  std::size_t limit_bytes_;
  std::unordered_map<std::uint32_t, row> rows_;
};

} // namespace farandole
