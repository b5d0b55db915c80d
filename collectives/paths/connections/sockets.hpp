// TCP sockets as links need them: non-blocking, closed on exec, no delay for small writes, and a host that
// has vanished noticed by its silence. Addresses are numbers ("127.0.0.1", "::1"): nothing in here looks up a
// name, so nothing blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "messages/descriptor.hpp"
#include "messages/error.hpp"

namespace farandole {

/// Bound and listening. Port 0: the system picks one.
expected<descriptor> open_listener(const std::string& ip, std::uint16_t port);
std::uint16_t port_of(const descriptor& socket);

/// On its way to the peer, or there already; writable tells when it is decided. Where it is decided at once
/// that it fails, `number`, unless null, is set to the system's error.
expected<descriptor> start_connecting(const std::string& ip, std::uint16_t port, int* number = nullptr);
/// How it ended, once it was reported writable: an error of the system, or 0.
int connect_result(int socket);

struct accepted_socket {
  descriptor socket;
  int error = 0; ///< of the system, when the socket is empty
};
accepted_socket accept_one(int listener);

/// A connection ends with an error (see tells_silence) when the peer's host has not acknowledged what was
/// sent for so long, or, where nothing was sent, has not answered the kernel's probes. Without this process
/// being woken; one that is stopped still answers.
void limit_silence(int socket, std::chrono::nanoseconds longest);
/// Whether this error of the system may mean so.
bool tells_silence(int error);

/// "127.0.0.1:4711".
std::string peer_of(int socket);

/// "Connection refused".
std::string text_of_errno(int number);

} // namespace farandole
