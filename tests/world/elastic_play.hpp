// The options of a simulated elastic job: its hosts over time, the length of training, and the faults. They
// are drawn from a seed or set by a fixed scenario.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/connections/handshake_table.hpp"
#include "elastic/host_slots.hpp"

namespace farandole::testing {

/// A new kind is a row in the table of elastic_play.cpp and a case in elastic_faults.cpp.
enum class fault_kind : std::uint8_t {
  link_lost,         ///< the link of a message breaks; its ends notice it at different times
  delay,             ///< for a while, messages take much longer
  reorder,           ///< for a while, messages on different links overtake each other by far
  partition,         ///< for a while, no message passes between one process and all others
  partition_one_way, ///< likewise, but messages of the process pass
  death,             ///< the sender or the receiver of a message is killed
  slow_rank,         ///< from now on, one process is a hundred times slower
  clock_jump,        ///< time advances without any step of a process
  discovery_lies,    ///< for a while, discovery fails, or finds no host, or leaves one out
  discovery_flaps,   ///< for a while, a host comes and goes with each answer
  rendezvous_death, ///< the rendezvous ends, maybe during a write or with its machine; a new one starts later
  disk_full,        ///< for a while, the journal cannot be written

  // The rare faults, which are drawn from a separate stream.
  stopped_process,     ///< for a while, one process is stopped as by SIGSTOP; its host still answers
  half_open_link,      ///< one end of a link notices that it broke, and the other end much later
  corrupted_record,    ///< an arriving record fails its check: the link ends there, and then at the other end
  disturbed_handshake, ///< for a while, all handshakes with one process fail
  impostor,            ///< while the rendezvous is gone, a process without the secret listens on its port
  strangers,           ///< for a while, unauthenticated peers take places at the listeners of one process
};
inline constexpr std::size_t fault_kind_count = 18;
std::string_view to_string(fault_kind kind);

struct fault {
  fault_kind kind = fault_kind::death;
  std::uint64_t at_message = 0; ///< number of messages in the whole job before the fault
  std::chrono::milliseconds lasts{0};
  std::uint64_t pick = 0; ///< random bits that select the target and other details
};
std::string to_string(const fault& injected);

/// From this time on, discovery finds these hosts.
struct found_hosts {
  std::chrono::milliseconds at{0};
  std::vector<host_slots> hosts;
};

struct elastic_options {
  std::uint64_t seed = 1;

  // The job, as in the options of horovodrun.
  std::int32_t processes = 3;
  std::int32_t fewest = 1;
  std::int32_t limit = 6;
  bool cooldown = false;
  bool apart = false; ///< the rendezvous runs apart from the launcher, with a journal
  /// The first entry is at 0; a single entry means fixed hosts without a script.
  std::vector<found_hosts> hosts;

  // The training function.
  std::int32_t rounds = 6;
  std::int32_t tensors = 2;
  std::int32_t commit_every = 2;
  /// If not 0, generations of three or more members have a process set without rank 0.
  std::int32_t sets_every = 0;
  std::uint64_t think_us = 300; ///< longest time of a member between two calls

  // Messages, each way, in microseconds.
  std::uint64_t latency_us = 50;
  std::uint64_t jitter_us = 200;
  std::uint64_t delayed = 50;
  std::uint64_t delay_us = 5000;
  bool relays = false;
  bool one_machine = false; ///< all hosts are names of one machine, so tensors take the fast path
  /// On one machine, no tensor counts as small, and waiting callers run the collectives themselves.
  bool callers_run = false;
  handshake_limits handshakes; ///< limits of each listener
  bool inline_tensors = true;  ///< between hosts, the leader reduces small tensors itself
  bool own_clocks = false;     ///< each process has its own clock with an offset and a drift

  bool heartbeats = false; ///< members send heartbeats, and no lane waits for ever
  std::chrono::seconds operation_timeout{30};
  std::chrono::seconds stuck_timeout{0}; ///< zero: no member is lost for its silence

  std::vector<fault> faults; ///< in the order of their messages

  bool stops_processes = false; ///< a scenario stops processes

  /// Whether processes must be told apart.
  bool tells_processes_apart() const;

  static elastic_options drawn(std::uint64_t seed);
};

} // namespace farandole::testing
