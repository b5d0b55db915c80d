// A job of this host's processes from its first to its last moment: the rendezvous, the host driver and what
// they stand on. It is what a command line needs, and shows nothing of actors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/launch/slot_spec.hpp"
#include "messages/error.hpp"
#include "messages/settings.hpp"

namespace farandole {

struct launcher_options {
  std::int32_t size = 1;
  settings values = settings::built_in();
  std::string secret;
  std::string bind_ip = "127.0.0.1";
  std::uint16_t port = 0; ///< of the rendezvous; 0: any free one
};

class launcher {
public:
  /// Blocks the signals that end a program, forks a keeper and starts the rendezvous: the process must have
  /// one thread only.
  static expected<std::unique_ptr<launcher>> open(const launcher_options& options);
  ~launcher();

  /// Of the rendezvous.
  std::uint16_t port() const;
  /// Copies of a slot's output go to `folder`/stdout and `folder`/stderr. Before run().
  error copy_output(slot_spec& slot, const std::string& folder);
  /// Starts the processes and waits for the end of the job, or for SIGINT, SIGTERM or SIGHUP, which end it in
  /// order. Returns the launcher's exit code. Once.
  int run(std::vector<slot_spec> slots);
  /// Starts nothing: the rendezvous serves members that others start, until SIGINT, SIGTERM or SIGHUP.
  void serve();

private:
  struct parts;
  explicit launcher(std::unique_ptr<parts> made);

  std::unique_ptr<parts> parts_;
};

} // namespace farandole
