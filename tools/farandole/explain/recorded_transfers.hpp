// The transfers that a rank has recorded, with a name that is the same on all ranks that took part.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "messages/record/event_reader.hpp"

namespace farandole {

/// Identifies a transfer among those of all ranks of a job.
struct transfer_key {
  std::uint64_t generation = 0;
  std::uint16_t set = 0;
  std::uint64_t epoch = 0;  ///< of the set: its sequence numbers begin again with each
  std::uint64_t bundle = 0; ///< sequence number

  friend auto operator<=>(const transfer_key&, const transfer_key&) = default;
};

/// Follows the generation of a rank and the epochs of its process sets, which distinguish sequence numbers.
class transfer_names {
public:
  void follow(const event& entry);
  transfer_key key_of(const event& entry) const;

private:
  std::uint64_t generation_ = 0;
  std::map<std::uint16_t, std::uint64_t> epochs_;
};

/// A transfer in which each rank needs the data of every other, as one rank has recorded it.
struct recorded_transfer {
  transfer_key key;
  std::uint64_t begin = 0; ///< ticks
  std::uint64_t end = 0;
};

/// Those that have ended without error.
std::vector<recorded_transfer> transfers_in(const event_record& record);

} // namespace farandole
