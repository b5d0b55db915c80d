// The program of a simulated job with process sets. It is drawn from a seed and is the same for all members.
// Sets may overlap or be disjoint, may have one member or all but one, and may be without rank 0; they start
// and end while tensors move in other sets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole::testing {

struct set_options {
  std::uint64_t seed = 1;
  std::int32_t members = 6;
  std::int32_t rounds = 6;
  std::int32_t tensors = 12;   ///< number of tensors of each set in each play action
  std::int32_t host_ranks = 0; ///< 0: no relays
  std::size_t fan_in = 8;

  std::int64_t cache_capacity = 1024;
  std::int64_t fusion_threshold = 4096;
  std::int64_t cycle_time_ms = 0;

  // Links, each way, in microseconds, as in job_options.
  std::uint64_t latency_us = 50;
  std::uint64_t jitter_us = 100;
  std::uint64_t delayed = 50;
  std::uint64_t delay_us = 5000;

  static set_options drawn(std::uint64_t seed, std::int32_t members);
};

/// One step of the program.
struct set_action {
  enum class type : std::uint8_t {
    create, ///< request `sets` as the sets of the start
    add,    ///< request sets[0]
    remove, ///< request the end of sets[0]
    differ, ///< every member requests a different set: no set changes
    play,   ///< submit tensors in all of `sets` of which the rank is a member
  };
  type kind = type::play;
  std::vector<std::size_t> sets = {}; ///< by their number in the play; 0 is the global set
  /// Play: the set that ends next, whose tensors the trainer does not wait for; 0: none.
  std::size_t doomed = 0;
};

class set_play {
public:
  explicit set_play(const set_options& options);

  const set_options& options() const { return options_; }
  const std::vector<set_action>& program() const { return program_; }
  /// The ranks of the members, ascending.
  const std::vector<std::int32_t>& ranks(std::size_t set) const { return ranks_[set]; }
  /// Position of the rank in the set; -1 if it is no member.
  std::int32_t position(std::size_t set, std::int32_t rank) const;

  static std::string name(std::int32_t tensor) { return "tensor." + std::to_string(tensor); }
  /// All sets use the same names for different tensors.
  signature signature_of(std::size_t step, std::size_t set, std::int32_t tensor, std::int32_t rank) const;
  /// Whether the rank leaves out a tensor of the set that is doomed, so that it is pending when the set ends.
  bool leaves_out(std::size_t step, std::size_t set, std::int32_t tensor, std::int32_t rank) const;
  bool allows(std::size_t step, std::size_t set, std::int32_t tensor, error_kind end) const;

private:
  std::int32_t left_out_by(std::size_t step, std::size_t set, std::int32_t tensor) const;
  void begin_set(std::vector<std::int32_t> ranks, std::vector<std::size_t>& live);

  set_options options_;
  std::vector<std::vector<std::int32_t>> ranks_;
  std::vector<set_action> program_;
};

} // namespace farandole::testing
