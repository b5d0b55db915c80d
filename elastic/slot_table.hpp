// A process takes a slot of the job, leaves it, and may take it again over another link. The table records the process
// and the link of each slot, and whether the next generation waits for it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "messages/wire/job_image.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

/// Identifies a link to a process; chosen by the caller, never reused.
using link_id = std::uint64_t;

struct slot_record {
  std::string host; ///< name given to expect()
  std::optional<link_id> link;
  hello announced;
  bool in_generation = false;    ///< a member that has not left since the generation began
  bool awaited = false;          ///< the next generation does not start without it
  bool retired = false;          ///< is to leave by plan
  bool ended = false;            ///< its process has ended for good
  bool notice_uncertain = false; ///< member by an earlier rendezvous, which may not have notified it
  std::string end_reason;
  std::int32_t last_rank = -1; ///< in the last generation; -1 if not a member, or lost
  /// The process's link in the running generation before it said hello again. Either a farewell arrives on
  /// it, or it ends without one, and the others have lost this member.
  std::optional<link_id> earlier;

  /// A member according to an earlier rendezvous that has not reconnected yet.
  bool is_absent() const { return in_generation && !link; }
  /// Has said hello, and may be in the next generation once none runs.
  bool is_present() const { return link && !retired; }
  /// May be in a later generation.
  bool is_usable() const { return !ended && !retired; }
  /// Whether the last hello for the slot came from this process.
  bool is_of(const std::string& host, std::int64_t process) const {
    return announced.process == process && announced.host == host;
  }
};

class slot_table {
public:
  /// Adds a record of the slot if there is none, and returns whether it did. `host`: name of the slot's host, for
  /// messages; empty if it is not known.
  bool expect(std::int32_t slot, const std::string& host);
  /// Null if there is no record of the slot.
  const slot_record* find(std::int32_t slot) const;
  slot_record* find(std::int32_t slot);
  const slot_record& at(std::int32_t slot) const { return slots_.at(slot); }
  slot_record& at(std::int32_t slot) { return slots_.at(slot); }
  // By slot, ascending.
  auto begin() const { return slots_.begin(); }
  auto begin() { return slots_.begin(); }
  auto end() const { return slots_.end(); }
  auto end() { return slots_.end(); }

  /// The slot with this link; empty if there is none.
  std::optional<std::int32_t> slot_of(link_id from) const;
  /// The slot that has this link, or had it in the running generation.
  std::optional<std::int32_t> reporter_of(link_id from) const;
  /// The link over which the process that sent `request` is still a member; empty if it is not.
  std::optional<link_id> link_of_same_process(const hello& request) const;
  bool some_present() const;
  /// The links of the slots whose processes have said hello and are not to leave, by slot.
  std::map<std::int32_t, link_id> present() const;
  /// Whether the generation has no members any more.
  bool all_left() const;
  /// The slot whose process ended before all others.
  std::optional<std::int32_t> first_ended() const { return first_ended_; }

  /// The slot's process has ended for good.
  void end_process(std::int32_t slot, const std::string& reason);
  /// The next generation no longer waits for slots without a link; `in_generation_only`: only for those of
  /// them that are in the running generation. Returns their slots.
  std::vector<std::int32_t> give_up_missing(bool in_generation_only);
  /// A generation starts with these members. `elastic`: the next one does not wait for other slots.
  void start_generation(const std::vector<std::int32_t>& slots_by_rank, bool elastic);

  /// Restores the slots stored by an earlier rendezvous, without links. Other slots stay unchanged.
  void restore(const std::vector<slot_image>& images);
  std::vector<slot_image> image(bool running) const;

private:
  std::map<std::int32_t, slot_record> slots_;
  std::optional<std::int32_t> first_ended_;
};

} // namespace farandole
