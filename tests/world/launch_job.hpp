// The launch of a job on many hosts in one thread on virtual time. The agent registry, the far slots, the drivers and
// the agents are real, and so are the tests of addresses from host to host; the placer's commands, the workers, the links
// and the faults are simulated from one seed.
// Without a rendezvous: workers print, and end after their time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farandole::testing {

enum class launch_fault : std::uint8_t {
  agent_killed,    ///< SIGKILL of an agent; its keeper kills the workers
  link_broken,     ///< between the launcher and an agent
  cut_off,         ///< no message passes between the launcher and an agent for a while
  command_ended,   ///< the placer's command that started an agent
  start_repeated,  ///< an agent receives a request to start a process twice
  host_leaves,     ///< SIGTERM of an agent
  interrupted,     ///< SIGINT of the launcher
  launcher_killed, ///< SIGKILL of the launcher
};

struct planned_fault {
  launch_fault kind = launch_fault::agent_killed;
  std::chrono::milliseconds at{0}; ///< since the start of the job
  std::int32_t host = 0;
  std::chrono::milliseconds lasts{0};
};

struct launch_options {
  std::uint64_t seed = 1;
  std::int32_t hosts = 3;
  std::int32_t slots = 2; ///< of each host
  bool elastic = false;
  std::size_t most_bytes = 100'000;      ///< of output on each stream of a worker
  std::size_t window_bytes = 65'536;     ///< of each stream, between an agent and the launcher
  std::size_t read_bytes = 1'000'000;    ///< of each stream that the launcher's reader takes every 10 ms
  std::uint64_t failing = 0;             ///< one worker in so many fails
  std::uint64_t not_starting = 0;        ///< … cannot be started
  std::uint64_t endless = 0;             ///< … prints until it is ended by a signal
  std::uint64_t ignoring_sigterm = 0;    ///< … ignores SIGTERM
  std::int32_t networks = 1;             ///< of each host; with several, the hosts test their addresses
  std::uint64_t dead = 0;                ///< one address in so many is reached by no other host
  std::uint64_t blocked = 0;             ///< an address is blocked for one other host in so many
  std::uint64_t unreachable = 0;         ///< one of the placer's commands in so many fails
  std::chrono::milliseconds lasts{5000}; ///< longest life of a worker
  std::vector<planned_fault> faults;

  static launch_options drawn(std::uint64_t seed);
};

struct launch_report {
  std::vector<std::string> problems; ///< empty if the job was correct
  std::vector<std::string> user_messages;
  int code = -1;                  ///< exit code of the launcher; -1 if it was killed
  std::uint64_t trace = 0;        ///< hash of the order of all steps
  std::size_t workers = 0;        ///< workers that ran
  std::size_t faults = 0;         ///< faults that happened
  std::size_t received_bytes = 0; ///< of output
  std::size_t agents = 0;         ///< agents that were started
  bool apart = false;             ///< the job did not start, because some hosts do not reach each other
};

launch_report run_launch(const launch_options& options);

} // namespace farandole::testing
