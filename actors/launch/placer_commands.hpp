// The placer's commands that run: which hosts need which command, how it has ended, and which lines it has printed last,
// for the report of a host that cannot be used. Pure bookkeeping; the agent registry starts and ends the commands.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/launch/last_lines.hpp"
#include "actors/launch/process.hpp"

namespace farandole {

class placer_commands {
public:
  using number = std::int32_t;
  using host_set = std::set<std::string>;

  struct finished_command {
    host_set hosts;                         ///< those whose agents it was still to start, or kept running
    std::optional<process_end> exit_status; ///< empty if it could not be run
    bool forwards = false;                  ///< it forwarded ports
  };

  /// A command begins that is to start the agents of these hosts. It forwards ports if it is that of a single host for
  /// which forward_ports() was called. Numbers are never used twice.
  number begin(const std::vector<std::string>& hosts, std::shared_ptr<const last_lines> printed);
  /// The command has ended; its output may not be complete yet.
  void end(number command, const process_end& exit_status);
  /// The output of the command is complete: removes it.
  finished_command finish(number command);
  /// The launcher cannot be reached from this host, as a command has found out that printed these lines: the host's
  /// next commands are to forward ports.
  void forward_ports(const std::string& host, std::deque<std::string> printed);
  /// This host needs no command any more. Returns the commands that no host needs.
  std::vector<number> release(const std::string& host);

  bool empty() const { return commands_.empty(); }
  /// Whether a command for these hosts is to forward ports.
  bool forwards(const std::vector<std::string>& hosts) const;
  /// The hosts that need this command.
  const host_set& hosts_of(number command) const { return commands_.at(command).in_use; }
  /// Whether no later command is to start the agent of this host. A host that was dismissed and is wanted again is
  /// started by a new command, while the earlier one may still be ending.
  bool is_latest(number command, const std::string& host) const;

  /// Keeps the last lines of a finished command of this host, until its agent is connected.
  void keep_lines(const std::string& host, std::deque<std::string> lines);
  /// The agent of this host is connected, so the lines of its earlier commands explain nothing any more.
  void connected(const std::string& host);
  /// The last lines of the latest command of this host, after those of the command that has found out that the launcher
  /// cannot be reached.
  std::vector<std::string> printed_by(const std::string& host) const;

private:
  struct command {
    host_set hosts;
    host_set in_use; ///< those of the hosts that need it
    std::shared_ptr<const last_lines> printed;
    bool forwards = false;
    std::optional<process_end> exit_status;
  };

  std::map<number, command> commands_;
  std::map<std::string, std::deque<std::string>> kept_lines_; ///< by host, of finished commands
  std::map<std::string, std::deque<std::string>>
      forwarded_; ///< hosts from which the launcher cannot be reached, with the lines of the command that found out
  number next_ = 0;
};

} // namespace farandole
