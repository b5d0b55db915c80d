// The state of a job that a restarted rendezvous needs, as one value: the members, their generation and ranks,
// the slots that have ended, and the number of pending changes. Links are not part of it: members of the
// running generation reconnect over new links, and waiting processes say hello again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

struct slot_image {
  std::int32_t slot = 0;
  bool in_generation = false;
  bool awaited = false;
  bool retired = false;
  bool ended = false;
  std::int32_t last_rank = -1;
  std::string end_reason;
  // Only of a slot in the generation; empty otherwise.
  std::string host;
  std::string host_name;
  std::string address;
  std::int64_t process = 0;

  friend bool operator==(const slot_image&, const slot_image&) = default;
};

struct job_image {
  std::uint64_t epoch = 0;
  std::uint64_t launcher = 0; ///< that owns the slots; 0: in this process, or not known yet
  std::int32_t size = 1;
  std::int32_t minimum = 1;
  std::int32_t limit = 1;
  bool elastic = false;
  bool running = false;
  bool removals_only = true;
  bool lost_somebody = true;
  std::uint64_t state_generation =
      0; ///< of the newest training state when the last generation began; 0: none existed
  std::uint64_t generation = 0;
  std::uint64_t changes = 0;
  std::vector<std::int32_t> slots_by_rank;
  std::vector<slot_image> slot_images; ///< by slot, ascending

  friend bool operator==(const job_image&, const job_image&) = default;
};

/// `current`, but with only those slots that are missing from `before` or differ there.
job_image difference(const job_image& before, const job_image& current);
/// The inverse of difference(): applies a change to the earlier image `to`.
void apply(const job_image& change, job_image& to);

std::vector<std::byte> encode(const job_image& value);
/// Checks that slots ascend, and that numbers are in range.
expected<job_image> decode_job_image(std::span<const std::byte> bytes);

} // namespace farandole
