// What happens to a simulated elastic job: which hosts there are and when, how long the members train, and
// which faults come. All of it is drawn from a seed, or written down by a fixed scenario.
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
  link_lost,         ///< the link that a message came by breaks; its ends hear of it at different times
  delay,             ///< for a while, messages take much longer
  reorder,           ///< for a while, links overtake each other by far
  partition,         ///< for a while, nothing passes between one process and all others
  partition_one_way, ///< likewise, but what it sends passes
  death,             ///< the process that sent, or was to get, a message is killed
  slow_rank,         ///< from now on, one process is a hundred times slower
  clock_jump,        ///< time goes on, and nobody could do anything meanwhile
  discovery_lies,    ///< for a while, discovery fails, or finds no host, or leaves one out
  discovery_flaps,   ///< for a while, a host comes and goes with each answer
  rendezvous_death,  ///< it ends, maybe in the midst of a write, maybe with its machine; another one comes
                     ///< later
  disk_full,         ///< for a while, the journal cannot be written

  // The rare ones, which are drawn from a stream of their own.
  stopped_process,     ///< for a while, one process does nothing, as after SIGSTOP; its host still answers
  half_open_link,      ///< one end of a link hears that it broke, and the other one much later
  corrupted_record,    ///< what arrives fails its check: its link ends there, and then at the other end
  disturbed_handshake, ///< for a while, nobody can prove the secret to one process, nor it to others
  impostor,            ///< while the rendezvous is away, somebody without the secret has its port
  strangers,           ///< for a while, strangers take places at one process's listeners
};
inline constexpr std::size_t fault_kind_count = 18;
std::string_view to_string(fault_kind kind);

struct fault {
  fault_kind kind = fault_kind::death;
  std::uint64_t at_message = 0; ///< when so many have arrived in the whole job
  std::chrono::milliseconds lasts{0};
  std::uint64_t pick = 0; ///< whom it hits, and other questions it leaves open
};
std::string to_string(const fault& injected);

/// From here on, discovery finds these hosts.
struct found_hosts {
  std::chrono::milliseconds at{0};
  std::vector<host_slots> hosts;
};

struct elastic_options {
  std::uint64_t seed = 1;

  // The job, as horovodrun is told.
  std::int32_t processes = 3;
  std::int32_t fewest = 1;
  std::int32_t limit = 6;
  bool cooldown = false;
  bool apart = false;             ///< the rendezvous runs apart from the launcher, with a journal
  std::vector<found_hosts> hosts; ///< the first at 0; one alone: they are fixed, and there is no script

  // The training function.
  std::int32_t rounds = 6;
  std::int32_t tensors = 2;
  std::int32_t commit_every = 2;
  std::int32_t sets_every = 0;  ///< generations of three or more have a process set without rank 0; 0: none
  std::uint64_t think_us = 300; ///< a member takes up to so long between two calls

  // Messages, each way, in microseconds.
  std::uint64_t latency_us = 50;
  std::uint64_t jitter_us = 200;
  std::uint64_t delayed = 50;
  std::uint64_t delay_us = 5000;
  bool relays = false;
  bool one_machine = false; ///< all hosts are names of one: tensors take the fast path
  bool callers_run = false; ///< there: no tensor is small, and waiting callers run the collectives themselves
  handshake_limits handshakes; ///< of each listener
  bool inline_tensors = true;  ///< between hosts, the leader reduces small ones itself
  bool own_clocks = false;     ///< each process's clock is ahead of others, and faster or slower

  bool heartbeats = false; ///< members give signs of life, and no lane waits for ever
  std::chrono::seconds operation_timeout{30};
  std::chrono::seconds stuck_timeout{0}; ///< zero: nobody is lost for being silent

  std::vector<fault> faults; ///< by message

  bool stops_processes = false; ///< a scenario does

  /// Whether processes must be told apart.
  bool tells_processes_apart() const;

  static elastic_options drawn(std::uint64_t seed);
};

} // namespace farandole::testing
