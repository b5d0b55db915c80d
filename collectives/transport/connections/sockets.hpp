// TCP sockets as links need them: non-blocking, closed on exec, no delay for small writes, and a host that
// has vanished noticed by its silence. Addresses are numbers ("127.0.0.1", "::1"): nothing in here looks up a
// name, so nothing blocks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"

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
  int error = 0;    ///< of the system, when the socket is empty
  std::string peer; ///< as peer_of() says
};
accepted_socket accept_one(int listener);

/// Whether accepting failed for want of descriptors or memory: the waiting connection would be reported again
/// at once, for ever, so a listener looks away for a while.
bool must_pause_accepting(int error);
inline constexpr std::chrono::milliseconds accept_pause{200};
/// How many descriptors this process may have open.
std::size_t descriptors_allowed();

/// A connection ends with an error (see tells_silence) when the peer's host has not acknowledged what was
/// sent for so long, or, where nothing was sent, has not answered the kernel's probes. Without this process
/// being woken; one that is stopped still answers.
void limit_silence(int socket, std::chrono::nanoseconds longest);
/// Whether this error of the system may mean so.
bool tells_silence(int error);

/// "127.0.0.1:4711".
std::string peer_of(int socket);
/// Whom a connection from this peer ("127.0.0.1:4711", "[fe80::1]:4711") is counted to: its address, or the
/// 64-bit prefix of an IPv6 one, within which a host chooses addresses as it likes.
std::string source_of(const std::string& peer);

/// Whether a connection's first record has come (first_record.hpp), which stays in the socket; `gone`:
/// nothing more will. While it has not, the socket is reported readable only when more of it has come.
enum class first_record : std::uint8_t { missing, whole, gone };
first_record look_for_first_record(int socket);

/// "Connection refused".
std::string text_of_errno(int number);

} // namespace farandole
