// The commands that programs of the user (farandole rsh) run on hosts of the job: which program's link belongs to which
// process of which host. Pure bookkeeping; the agent registry forwards the messages between program and agent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "messages/wire/placement.hpp"

namespace farandole {

class user_commands {
public:
  using link = std::uint64_t;

  struct command {
    std::string host;
    process_number number = 0;
    bool is_complete = false; ///< the program was sent the last message about the process

    friend bool operator==(const command&, const command&) = default;
  };

  /// The numbers of commands begin here, so that they differ from those of workers.
  static constexpr process_number first_number = process_number{1} << 30U;

  /// A program runs a command on a host. Returns the number of its process. Each link has at most one command.
  process_number begin(link program, const std::string& host);
  /// The command of the program at this link, if it has one.
  std::optional<command> of(link program) const;
  /// The program whose command has this number on this host.
  std::optional<link> program_of(const std::string& host, process_number number) const;
  /// The program at this link is sent the last message about its process. Neither a lost host nor the end of the job
  /// concerns it any more.
  void complete(link program);
  /// The link of a program has ended. Returns its command, whose process may still run.
  std::optional<command> end(link program);
  /// This host is lost: removes and returns those of its commands that are not complete, by program.
  std::map<link, command> lost(const std::string& host);
  /// The job has ended: the same for the commands of all hosts.
  std::map<link, command> end_all();
  /// Whether a program may send this to the agent: it is a request about the program's own process.
  static bool allows(const command& command, const envelope& message);

private:
  std::map<link, command> remove(const std::function<bool(const command&)>& is_meant);

  std::map<link, command> commands_;
  process_number next_ = first_number;
};

} // namespace farandole
