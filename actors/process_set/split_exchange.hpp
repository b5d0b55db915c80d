// Computes the size of an alltoall's output. One member alone cannot compute it, because only the sender knows how
// many rows it sends. So the members exchange the numbers first, with a small work of the same kind and of fixed
// size. Each member sends to each member the number of rows that this member gets, and the largest number that it
// sends to any member, because paths run as many rounds as the longest piece of all members needs. The exchange uses
// the data paths and needs no message of the leader.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/transport/path.hpp"

namespace farandole {

class split_exchange {
public:
  /// `splits`: rows that this member sends to each member, itself included; at least one element.
  explicit split_exchange(std::span<const std::int64_t> splits);

  /// The work to run first, on every member. Its buffers belong to this object, which must outlive the run.
  work question();

  /// After the question has run: writes the bytes that this member receives into `bundle.received`, and the longest
  /// piece of all members into `bundle.longest`. The bundle has one part, with rows of `row_bytes`, the same on all
  /// members. Returns `unknown` if the answers contradict each other; `name` is for its text.
  error answer(std::string_view name, std::size_t row_bytes, work& bundle);

  /// After answer(): the number of rows that come from each member.
  const std::vector<std::int64_t>& received() const { return received_; }

private:
  /// The record that is exchanged, in the host's byte order: members have equal builds, as for all data on a path.
  struct word {
    std::int64_t rows = 0;  ///< from the sender to the receiver
    std::int64_t limit = 0; ///< largest number from the sender to any member
  };

  std::vector<word> outgoing_;
  std::vector<word> incoming_;
  std::vector<std::int64_t> received_;
};

} // namespace farandole
