// Which operations of the ranks belong together, and their results. No sockets and no threads.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cuda/fake/fake_nccl_frames_testing.hpp"

namespace fake_nccl {

/// The n-th collective of a rank belongs to the n-th of all others, and the n-th send of a rank to another to the n-th
/// receive there. A collective ends for all ranks when the last has begun it, a send when its receive has begun.
/// Operations that belong together and do not match never end.
class matches {
public:
  /// Is called with a rank and a frame for it.
  using answer = std::function<void(std::size_t, frame)>;

  matches(std::size_t ranks, answer give) : collectives_(ranks), give_(std::move(give)) {}

  /// An operation that a rank has begun. Returns the text of a mismatch; empty if there is none.
  std::string begin(std::size_t rank, frame operation);

private:
  using ranks_pair = std::pair<std::size_t, std::size_t>; ///< sender, receiver

  std::string match_collectives();
  std::string match_pair(const ranks_pair& pair);
  void finish_collective(std::vector<frame> all);

  std::vector<std::deque<frame>> collectives_; ///< of each rank
  std::map<ranks_pair, std::deque<frame>> sends_, receives_;
  answer give_;
};

} // namespace fake_nccl
