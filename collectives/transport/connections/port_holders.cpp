#include "collectives/transport/connections/port_holders.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

namespace farandole {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_named = 8;

/// Of the listening sockets in a table of the kernel (proc(5), /proc/net/tcp): the port by the number of the socket.
void read_listeners(const char* table, const port_range& ports, std::map<std::string, std::uint16_t>& found) {
  constexpr const char* listening = "0A";
  std::ifstream file(table);
  std::string line;
  std::getline(file, line); // the names of the columns
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::string entry, local, remote, state, queues, timer, retransmits, user, timeout, socket;
    if (!(columns >> entry >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >>
          socket))
      continue;
    const auto colon = local.rfind(':');
    std::uint16_t port = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), port, 16);
    if (state == listening && port >= ports.lowest && port <= ports.highest)
      found["socket:[" + socket + "]"] = port;
  }
}

/// The entries of a folder that can be read; none if it cannot.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem))
    entries.push_back(entry->path());
  return entries;
}

std::string name_of(const fs::path& process) {
  std::ifstream file(process / "comm");
  std::string name;
  std::getline(file, name);
  return name + " (process " + process.filename().string() + ")";
}

} // namespace

std::string port_holders(const port_range& ports) {
  std::map<std::string, std::uint16_t> sockets;
  read_listeners("/proc/net/tcp", ports, sockets);
  read_listeners("/proc/net/tcp6", ports, sockets);
  std::map<std::uint16_t, std::string> holders;
  for (const auto& [socket, port] : sockets)
    holders.emplace(port, "another user's process");
  for (const auto& process : entries_of("/proc")) {
    const auto number = process.filename().string();
    if (!std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; }))
      continue;
    for (const auto& file : entries_of(process / "fd")) {
      std::error_code gone;
      const auto target = fs::read_symlink(file, gone);
      if (const auto held = sockets.find(target.string()); !gone && held != sockets.end())
        holders[held->second] = name_of(process);
    }
  }
  std::string text;
  std::size_t named = 0;
  for (const auto& [port, holder] : holders) {
    if (named++ == most_named)
      return text + ", …";
    text += (text.empty() ? "" : ", ") + std::to_string(port) + " by " + holder;
  }
  return text;
}

} // namespace farandole
