// An alltoall's output cannot be sized by one member alone: who sends how many rows is known to the sender
// only. So the members tell each other first, with a small work of the same kind, of a fixed size: to each,
// how many rows it gets, and the most that the sender gives to anybody (paths go in as many rounds as the
// longest piece of all members needs). It takes the paths' own way and no word of the leader.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/transport/path.hpp"

namespace farandole {

class split_exchange {
public:
  /// `splits`: rows that this member sends to each, itself included; it has at least this one member.
  explicit split_exchange(std::span<const std::int64_t> splits);

  /// The work to run first, on every member. Its buffers belong to this object, which must outlive the run.
  work question();

  /// After the question has run: writes what comes to this member into `bundle.received` and
  /// `bundle.longest`, whose one part has rows of `row_bytes`, the same on all members. `unknown` when the
  /// answers cannot be true; `name` is for its text.
  error answer(std::string_view name, std::size_t row_bytes, work& bundle);

  /// After answer(): rows that come from each member.
  const std::vector<std::int64_t>& received() const { return received_; }

private:
  /// What travels, as the host writes it: members have equal builds, as for all that goes by a path.
  struct word {
    std::int64_t rows = 0;  ///< from the sender to the receiver
    std::int64_t limit = 0; ///< from the sender to anybody
  };

  std::vector<word> told_;
  std::vector<word> heard_;
  std::vector<std::int64_t> received_;
};

} // namespace farandole
