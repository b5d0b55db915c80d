// One run of a training script as an elastic job on hosts that are all this machine, in reach of whoever
// disturbs it: it knows who trains, and can take hosts out and bring them back.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"
#include "tools/farandole/chaos/apart.hpp"
#include "tools/farandole/chaos/comparison.hpp"
#include "tools/farandole/chaos/network.hpp"
#include "tools/farandole/chaos/timeline.hpp"

namespace farandole::chaos {

struct trial_options {
  std::int32_t processes = 1; ///< each on a host of its own
  std::int32_t fewest = 1;
  bool apart = false;                    ///< the rendezvous is not the launcher's, and can be killed
  const host_network* network = nullptr; ///< hosts in it, if there is one; `apart`, too. Outlives the trial
  std::vector<std::string> command;
};

/// Nothing of it outlives this object: no process, no file.
class trial {
public:
  /// Starts the launcher, which is this program.
  static expected<trial> start(const trial_options& options);
  trial(trial&& other) noexcept;
  trial& operator=(trial&&) = delete;
  ~trial();

  /// Passes on what the job says and takes in what its workers tell, for so long, or until `also` can be
  /// read. Whether the job still runs.
  bool watch(std::chrono::milliseconds time, int also);
  /// Ends the job, in order at first.
  void end();
  /// Of the launcher; once it does not run any more.
  int code() const { return code_; }

  const timeline& seen() const { return history_; }
  const achievement& achieved() const { return achieved_; }

  /// Nullptr: it is the launcher's.
  apart_rendezvous* rendezvous() { return rendezvous_ ? &*rendezvous_ : nullptr; }

  void take_out(const std::string& host);
  void bring_back(const std::string& host);
  /// Only where there is a network. Empty: it is done; otherwise why not.
  std::string set_link(const std::string& host, bool up) const;
  /// By `farandole drain`. Empty: it leaves; otherwise why not.
  std::string drain(std::int32_t rank) const;

private:
  trial(std::string folder, trial_options options);

  error write_hosts() const;
  error write_script() const;
  error write_entrance();
  error open_outputs();
  error start_rendezvous();
  error launch();
  void read_output();
  void read_events();

  std::string folder_;
  trial_options options_;
  std::vector<std::string> command_; ///< the script, and what leads to its host
  std::set<std::string> away_;       ///< hosts
  pid_t launcher_ = -1;
  descriptor output_, output_end_, events_;
  std::optional<apart_rendezvous> rendezvous_;
  std::string half_line_, half_event_;
  timeline history_;
  achievement achieved_;
  int code_ = 0;
};

} // namespace farandole::chaos
