#include "tools/farandole/chaos/schedule.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdio>

namespace farandole::chaos {

namespace {

using namespace std::chrono_literals;

constexpr std::array<fault_row, 9> table{{
    {fault_kind::kill, "kill", "SIGKILL to a worker; a new one comes on its host", true, true, 0ms, 0ms},
    {fault_kind::stop, "stop", "SIGSTOP to a worker, and after a while SIGCONT", true, false, 500ms, 3000ms},
    {fault_kind::drain, "drain", "farandole drain of a rank; its host is back after a while", true, true,
     1000ms, 4000ms},
    {fault_kind::host, "host", "discovery takes a host out, and after a while it is back", true, true, 1000ms,
     4000ms},
    {fault_kind::rendezvous, "rendezvous", "SIGKILL to the rendezvous, and after a while it is started again",
     false, false, 500ms, 3000ms},
    {fault_kind::link, "link", "the link of a host is down for a while; hosts are network namespaces (root)",
     true, true, 1000ms, 40000ms, true},
    {fault_kind::agent, "agent", "SIGKILL to the agent of a host; the launcher starts another one (root)",
     true, true, 0ms, 0ms, true, true},
    {fault_kind::shell, "shell", "SIGKILL to the remote shell that started the agent of a host (root)", true,
     true, 0ms, 0ms, true, true},
    {fault_kind::cut, "cut", "the network of a host and its agent is cut off for a while (root)", true, true,
     1000ms, 40000ms, true, true},
}};

/// SplitMix64. It gives the same numbers on all platforms, which the standard's distributions do not guarantee.
class dice {
public:
  explicit dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    auto value = state_;
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31U);
  }

  std::chrono::milliseconds between(std::chrono::milliseconds milliseconds, std::chrono::milliseconds limit) {
    const auto span = static_cast<std::uint64_t>((limit - milliseconds).count()) + 1;
    return milliseconds + std::chrono::milliseconds(next() % span);
  }

private:
  std::uint64_t state_;
};

std::string names() {
  std::string text;
  for (const auto& row : table)
    text += (text.empty() ? "" : ", ") + std::string(row.name);
  return text;
}

} // namespace

std::span<const fault_row> fault_table() {
  return table;
}

const fault_row& row_of(fault_kind kind) {
  const auto& row = table.at(static_cast<std::size_t>(kind));
  assert(row.kind == kind);
  return row;
}

expected<std::vector<fault_kind>> parse_kinds(std::string_view list) {
  std::vector<fault_kind> kinds;
  for (;;) {
    const auto comma = list.find(',');
    const auto name = list.substr(0, comma);
    const auto* row = std::find_if(table.begin(), table.end(),
                                   [&](const fault_row& fault_row) { return fault_row.name == name; });
    if (row == table.end())
      return error{error_kind::invalid_argument,
                   "there is no fault '" + std::string(name) + "'; there are " + names()};
    if (std::find(kinds.begin(), kinds.end(), row->kind) == kinds.end())
      kinds.push_back(row->kind);
    if (comma == std::string_view::npos)
      return kinds;
    list.remove_prefix(comma + 1);
  }
}

std::vector<fault> draw_schedule(const schedule_options& options) {
  assert(!options.kinds.empty() && options.every > 0ms);
  dice from(options.seed);
  std::vector<fault> faults;
  const auto gap = [&] { return from.between(options.every / 2, options.every + options.every / 2); };
  for (auto at = gap(); at < options.duration; at += gap()) {
    fault injected;
    injected.kind = options.kinds[from.next() % options.kinds.size()];
    injected.at = at;
    injected.victim = static_cast<std::uint32_t>(from.next() % 1000);
    injected.lasts = from.between(row_of(injected.kind).shortest, row_of(injected.kind).longest);
    faults.push_back(injected);
  }
  return faults;
}

std::string to_text(const fault& injected) {
  const auto& row = row_of(injected.kind);
  char text[128];
  std::snprintf(text, sizeof text, "%8.1f s  %-10s", static_cast<double>(injected.at.count()) / 1e3,
                std::string(row.name).c_str());
  std::string line = text;
  if (row.hits_member)
    line += " member " + std::to_string(injected.victim) + ", counted around";
  if (injected.lasts > 0ms) {
    std::snprintf(text, sizeof text, "%s for %.1f s", row.hits_member ? "," : "",
                  static_cast<double>(injected.lasts.count()) / 1e3);
    line += text;
  }
  return line;
}

} // namespace farandole::chaos
