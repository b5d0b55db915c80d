// Breaks the connections between members of one process as a network failure would: the system ends them at both
// ends.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace farandole {

/// The TCP ports of a connection's two ends; 0 where there is none.
struct connection_ports {
  std::uint16_t own = 0, peer = 0;
};

inline connection_ports ports_of(int socket) {
  const auto port = [socket](auto get_name) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    const bool present = get_name(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    return present && address.sin_family == AF_INET ? ntohs(address.sin_port) : std::uint16_t{0};
  };
  return {port(::getsockname), port(::getpeername)};
}

/// Breaks every connection of this process, except those of which one end is at the rendezvous' port. Returns the
/// number of ends that were shut down.
inline int break_connections_apart_from(std::uint16_t rendezvous) {
  int broken = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int socket = std::stoi(entry.path().filename());
    const auto ports = ports_of(socket);
    if (ports.peer != 0 && ports.own != rendezvous && ports.peer != rendezvous)
      broken += ::shutdown(socket, SHUT_RDWR) == 0;
  }
  return broken;
}

} // namespace farandole
