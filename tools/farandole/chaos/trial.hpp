// One run of a training script as an elastic job whose hosts are all this machine. Gives `disturbance` access to
// the job: the members that train, and operations that remove hosts and add them again.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/launch/process_keeper.hpp"
#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"
#include "tools/farandole/chaos/apart.hpp"
#include "tools/farandole/chaos/comparison.hpp"
#include "tools/farandole/chaos/network.hpp"
#include "tools/farandole/chaos/timeline.hpp"

namespace farandole::chaos {

struct trial_options {
  std::int32_t processes = 1; ///< number of workers; each is on a host of its own
  std::int32_t fewest = 1;
  bool apart = false; ///< the rendezvous is a process of its own, so that it can be killed
  /// Network of the hosts, or nullptr. Requires `apart`. Must outlive the trial.
  const host_network* network = nullptr;
  bool agents = false; ///< the launcher starts an agent on each host. Requires a network.
  std::vector<std::string> command;
};

/// Its destructor ends all of its processes. A process keeper then removes the files, also if the tool is killed.
class trial {
public:
  /// Starts the launcher, which is this program itself.
  static expected<trial> start(const trial_options& options);
  trial(trial&& other) noexcept;
  trial& operator=(trial&&) = delete;
  ~trial();

  /// Forwards the job's output and reads its workers' events. Waits for at most `time`, or until the job has
  /// output or the descriptor `also` is readable. Returns whether the job still runs.
  bool watch(std::chrono::milliseconds time, int also);
  /// Ends the job: by SIGTERM, and by SIGKILL if that takes too long.
  void end();
  /// Exit code of the launcher; valid after it has ended.
  int code() const { return code_; }

  const timeline& seen() const { return history_; }
  const achievement& achieved() const { return achieved_; }

  /// Nullptr if the rendezvous is a part of the launcher.
  apart_rendezvous* rendezvous() { return rendezvous_ ? &*rendezvous_ : nullptr; }

  void take_out(const std::string& host);
  void bring_back(const std::string& host);
  /// Requires a network. Returns the reason if it fails, else an empty text.
  std::string set_link(const std::string& host, bool up) const;
  /// Makes a rank leave by `farandole drain`. Returns the reason if that is refused, else an empty text.
  std::string drain(std::int32_t rank) const;
  /// These require agents. They return the reason if they fail, else an empty text.
  std::string kill_agent(const std::string& host) const;
  /// Kills the remote shell that has started the agent of a host.
  std::string kill_shell(const std::string& host) const;

private:
  trial(process_keeper keeper, std::string folder, trial_options options);

  error write_hosts() const;
  error write_script() const;
  error write_entrance();
  error write_remote_shell() const;
  /// Kills the process whose id is in this file of the folder.
  std::string kill_process_of(const std::string& file) const;
  std::string host(std::int32_t number) const;
  error open_outputs();
  error start_rendezvous();
  error launch();
  void read_output();
  void read_events();

  process_keeper keeper_; ///< removes the folder
  std::string folder_;
  trial_options options_;
  std::vector<std::string> command_; ///< the script, behind a program that enters its host's network
  std::set<std::string> away_;       ///< hosts that discovery does not report
  pid_t launcher_ = -1;
  descriptor output_, output_end_, events_;
  std::optional<apart_rendezvous> rendezvous_;
  std::string half_line_, half_event_;
  timeline history_;
  achievement achieved_;
  int code_ = 0;
};

} // namespace farandole::chaos
