#include "actors/launch/placer_commands.hpp"

#include <algorithm>
#include <utility>

namespace farandole {

placer_commands::number placer_commands::begin(const std::vector<std::string>& hosts,
                                               std::shared_ptr<const last_lines> printed) {
  const host_set all(hosts.begin(), hosts.end());
  commands_[next_] = {all, all, std::move(printed), forwards(hosts), {}};
  return next_++;
}

void placer_commands::end(number command, const process_end& exit_status) {
  commands_.at(command).exit_status = exit_status;
}

placer_commands::finished_command placer_commands::finish(number command) {
  auto removed = commands_.extract(command);
  auto& finished = removed.mapped();
  return {std::move(finished.in_use), finished.exit_status, finished.forwards};
}

void placer_commands::forward_ports(const std::string& host, std::deque<std::string> printed) {
  forwarded_[host] = std::move(printed);
}

bool placer_commands::forwards(const std::vector<std::string>& hosts) const {
  return hosts.size() == 1 && forwarded_.contains(hosts.front());
}

std::vector<placer_commands::number> placer_commands::release(const std::string& host) {
  std::vector<number> unneeded;
  for (auto& [number, running] : commands_)
    if (running.hosts.contains(host)) {
      running.in_use.erase(host);
      if (running.in_use.empty())
        unneeded.push_back(number);
    }
  return unneeded;
}

bool placer_commands::is_latest(number command, const std::string& host) const {
  return std::none_of(commands_.upper_bound(command), commands_.end(),
                      [&](const auto& entry) { return entry.second.hosts.contains(host); });
}

void placer_commands::keep_lines(const std::string& host, std::deque<std::string> lines) {
  kept_lines_[host] = std::move(lines);
}

void placer_commands::connected(const std::string& host) {
  kept_lines_.erase(host);
  if (const auto found = forwarded_.find(host); found != forwarded_.end())
    found->second.clear();
}

std::vector<std::string> placer_commands::printed_by(const std::string& host) const {
  std::deque<std::string> lines;
  if (const auto found = kept_lines_.find(host); found != kept_lines_.end())
    lines = found->second;
  for (const auto& [number, running] : commands_)
    if (running.hosts.contains(host))
      lines = running.printed->lines();
  if (const auto found = forwarded_.find(host); found != forwarded_.end() && found->second != lines)
    lines.insert(lines.begin(), found->second.begin(), found->second.end());
  return {lines.begin(), lines.end()};
}

} // namespace farandole
