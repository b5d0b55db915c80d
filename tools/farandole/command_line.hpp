// What a person asked `farandole run` to do. Options that are settings come from the table of settings; what
// can be wrong with a command line is found here, before anything is started.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "elastic/worker_scheduler.hpp"
#include "messages/settings/settings.hpp"
#include "tools/farandole/hosts.hpp"

namespace farandole {

/// The version of the interface that `horovodrun --version` tells.
inline constexpr std::string_view interface_version = "0.28.1";

struct run_request {
  enum class kind : std::uint8_t { run, check, help, version } value = kind::run;
  std::string text; ///< help

  std::int32_t processes = 0;
  std::vector<host_slots> hosts; ///< with enough slots; not yet looked up; none with a script
  bool elastic = false;
  worker_scheduler_options scheduler; ///< of an elastic job
  std::string discovery_script;       ///< path; empty: the hosts are fixed
  std::optional<std::int32_t> slots_per_host;
  std::string journal;                 ///< of the rendezvous; empty: none
  std::string rendezvous_ip;           ///< of one that runs apart; empty: this launcher's own
  std::uint16_t rendezvous_port = 0;   ///< likewise
  std::vector<std::string> interfaces; ///< empty: none were named
  std::string output_folder;
  bool prefix_timestamp = false;
  bool verbose = false;
  bool tcp_only = false;
  settings values = settings::built_in();
  std::vector<std::string> warnings; ///< for people, on standard error
  std::vector<std::string> command;
};

/// What the parser needs to know of the world.
struct surroundings {
  environment_lookup environment;
  bool has_jsrun = false;             ///< on PATH
  std::vector<std::string> variables; ///< names of all that the environment has
};

/// `program` is what the usage line calls it; one that ends in "check" takes no command. Reads the config
/// file and the host file. The error's text begins with the usage line, as argparse's does.
expected<run_request> parse_run(const std::string& program, std::span<const std::string> words,
                                const surroundings& around);

} // namespace farandole
