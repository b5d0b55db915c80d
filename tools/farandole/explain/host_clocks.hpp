// Places the events of all hosts of a job on one time axis: the system clock of the host of the lowest rank. Records of one
// host have the same steady clock. Between hosts, records hold how far the steady clock of the member above it in the tree of
// relays is ahead, with a bound of the error and the drift (elastic/clock_exchange). The differences along the way from a
// host to the lowest rank add up, and so do their bounds.
//
// The job's transfers check this. No rank can end an allreduce before every rank has begun it. For a rank r on the reference
// host and a rank s on another host, whose clock is ahead by `offset`, each transfer therefore states
//     begin(s) - end(r)  <=  offset  <=  end(s) - begin(r),
// and all transfers together give an interval, which is as narrow as the fastest of them. It must contain the measured
// difference; and where nothing was measured, its middle is the offset, and half its length bounds the error. Source: A. Duda,
// G. Harrus, Y. Haddad and G. Bernard, "Estimating global time in distributed systems", ICDCS 1987, section 3, which does the
// same with messages in both directions.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "messages/record/event_reader.hpp"
#include "messages/record/tick_clock.hpp"
#include "tools/farandole/explain/recorded_transfers.hpp"

namespace farandole {

/// A transfer by the clock of a host, as one of its ranks has recorded it.
struct observed_transfer {
  std::size_t host = 0; ///< number of the host
  transfer_key key;
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds end{0};
};

struct clock_offset {
  /// Of the host's system clock when its first rank began to record: subtract it to get the time of the reference host.
  std::chrono::nanoseconds offset{0};
  /// Bound of the error. Empty: the clock was not measured, and the host shares no transfer with the reference host, so the
  /// offset is not known.
  std::optional<std::chrono::nanoseconds> error;
  /// By how much transfers contradict each other, or the measured offset: a clock was set, or the rates of the clocks differ.
  std::chrono::nanoseconds contradiction{0};
  bool measured = false; ///< by questions and answers between the ranks; otherwise from transfers
};

/// The offset of each host's clock according to the transfers, by number of the host. The reference host has number 0.
std::vector<clock_offset> offsets_by_transfers(std::vector<observed_transfer> transfers, std::size_t hosts);

class host_clocks {
public:
  /// Records of processes that were no members are ignored. `reading`: the time of this host's clocks, for records that no
  /// launcher has copied.
  host_clocks(std::span<const event_record* const> records, const tick_reading& reading);

  /// The host whose clock gives the times. Empty: there is no record of a member.
  const std::string& reference() const { return reference_; }
  const std::map<std::string, clock_offset>& offsets() const { return offsets_; }
  /// Of all hosts whose offset is known; 0 for one host.
  std::chrono::nanoseconds worst_error() const;
  /// Whether times of the two hosts can be compared: they are the same, or both clocks were measured.
  bool comparable(const std::string& host, const std::string& other) const;

  /// The rank on another host whose clock the ranks of this host have measured; -1: none.
  std::int32_t rank_above(const std::string& host) const;

  /// Its system() is the time of the reference host. If the clock of the record's host is not known, it is that of its host.
  tick_scale scale_of(const event_record& record) const;

private:
  /// The steady clock of another host minus that of this one, at a time by this one.
  struct steady_offset {
    std::chrono::nanoseconds offset{0};
    std::chrono::nanoseconds bound{0};
    std::chrono::nanoseconds measured{0};
    double drift = 0;

    std::chrono::nanoseconds at(std::chrono::nanoseconds time) const;
  };
  struct host {
    const event_record* first =
        nullptr; ///< record of its lowest rank: its scale counts for all of its records
    std::optional<recorded_clock> clock; ///< the best one that its ranks have measured
    std::string above;                   ///< host of the rank whose clock that is
    std::optional<steady_offset> to_reference;
    tick_scale scale;
  };

  void find_hosts(std::span<const event_record* const> members, const tick_reading& reading);
  void follow_measurements();
  std::optional<steady_offset> steady_offset_of(const host& from) const;
  void place_measured();
  void compare_transfers(std::span<const event_record* const> members);

  tick_reading reading_;
  std::string reference_;
  std::map<std::string, host> hosts_;
  std::map<std::string, clock_offset> offsets_;
};

} // namespace farandole
