// A rendezvous in a process of its own, with a journal (a write-ahead log), so that it can be killed and
// restarted at the same address while the job continues.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

namespace farandole::chaos {

struct apart_options {
  std::int32_t processes = 1, fewest = 1;
  std::string folder; ///< holds its secret and its journal; must exist, and be accessible to its user only
  std::string ip = "127.0.0.1";
  int network = -1; ///< descriptor of the network namespace that has the address; -1: that of this process
  int errors = 2;   ///< descriptor that becomes its standard error
};

class apart_rendezvous {
public:
  /// Returns when the rendezvous listens.
  static expected<apart_rendezvous> start(apart_options options);
  apart_rendezvous(apart_rendezvous&& other) noexcept;
  apart_rendezvous& operator=(apart_rendezvous&&) = delete;
  ~apart_rendezvous();

  /// "127.0.0.1:4711". It does not change when the rendezvous is restarted.
  std::string address() const { return options_.ip + ":" + std::to_string(port_); }
  std::string secret_file() const { return options_.folder + "/secret"; }
  bool runs() const { return child_ > 0; }

  /// Kills the process by SIGKILL.
  void kill();
  /// Restarts the rendezvous with the same address and journal.
  error start_again();

private:
  explicit apart_rendezvous(apart_options options) : options_(std::move(options)) {}
  error write_secret() const;
  expected<std::string> first_line(int from) const;

  apart_options options_;
  std::uint16_t port_ = 0;
  pid_t child_ = -1;
  descriptor said_;
};

} // namespace farandole::chaos
