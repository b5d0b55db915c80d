#include "actors/launch/user_commands.hpp"

#include <cassert>
#include <utility>

namespace farandole {

process_number user_commands::begin(link program, const std::string& host) {
  assert(!commands_.contains(program));
  commands_[program] = {host, next_};
  return next_++;
}

std::optional<user_commands::command> user_commands::of(link program) const {
  const auto found = commands_.find(program);
  return found == commands_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<user_commands::link> user_commands::program_of(const std::string& host,
                                                             process_number number) const {
  for (const auto& [program, command] : commands_)
    if (command.number == number && command.host == host)
      return program;
  return {};
}

std::optional<user_commands::command> user_commands::end(link program) {
  auto ended = commands_.extract(program);
  return ended ? std::optional(std::move(ended.mapped())) : std::nullopt;
}

void user_commands::complete(link program) {
  if (const auto found = commands_.find(program); found != commands_.end())
    found->second.is_complete = true;
}

std::map<user_commands::link, user_commands::command> user_commands::lost(const std::string& host) {
  return remove([&](const command& candidate) { return candidate.host == host; });
}

std::map<user_commands::link, user_commands::command> user_commands::end_all() {
  return remove([](const command&) { return true; });
}

std::map<user_commands::link, user_commands::command>
user_commands::remove(const std::function<bool(const command&)>& is_meant) {
  std::map<link, command> removed;
  for (auto position = commands_.begin(); position != commands_.end();) {
    const auto current = position++;
    if (!current->second.is_complete && is_meant(current->second))
      removed.insert(commands_.extract(current));
  }
  return removed;
}

bool user_commands::allows(const command& command, const envelope& message) {
  switch (message.kind()) {
  case wire::Envelope::Body::START_PROCESS:
  case wire::Envelope::Body::SIGNAL_PROCESS:
  case wire::Envelope::Body::PROCESS_INPUT:
  case wire::Envelope::Body::OUTPUT_CONSUMED:
    return process_of(message) == command.number;
  default:
    return false;
  }
}

} // namespace farandole
