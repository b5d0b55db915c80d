// TCP sockets for links: non-blocking, close-on-exec, without delay for small writes, and with detection of a
// vanished host by its silence. Addresses are numeric ("127.0.0.1", "::1"): no function here resolves a name,
// so none blocks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "messages/values/error.hpp"
#include "messages/values/port_range.hpp"

namespace farandole {

/// Returns a bound and listening socket. Port 0: the system picks one.
expected<descriptor> open_listener(const std::string& ip, std::uint16_t port);
/// The same for each of these addresses of this host, all on one port of the range that is free on all of them. If there
/// is none, the error names the range and the processes that use it.
expected<std::vector<descriptor>> open_listeners(std::span<const std::string> ips, const port_range& ports);
expected<descriptor> open_listener(const std::string& ip, const port_range& ports);
std::uint16_t port_of(const descriptor& socket);

/// Starts a connection; the socket is reported writable once it has succeeded or failed (connect_result()).
/// If it fails at once, `number`, unless null, is set to the errno value.
expected<descriptor> start_connecting(const std::string& ip, std::uint16_t port, int* number = nullptr);
/// The result of a connection attempt, once the socket is reported writable: an errno value, or 0.
int connect_result(int socket);

struct accepted_socket {
  descriptor socket;
  int error = 0;    ///< errno, if the socket is empty
  std::string peer; ///< as returned by peer_of()
};
accepted_socket accept_one(int listener);

/// Whether accept() failed for lack of descriptors or memory. The waiting connection would then be reported
/// again at once, endlessly, so the listener must stop polling for accept_pause.
bool must_pause_accepting(int error);
inline constexpr std::chrono::milliseconds accept_pause{200};
/// The number of descriptors that this process may have open.
std::size_t descriptors_allowed();

/// Makes a connection end with an error (see tells_silence) if the peer's host has not acknowledged sent data
/// for `longest`, or, if no data was sent, has not answered the kernel's probes for that time. The kernel
/// does this without waking this process. The kernel of a stopped peer still answers.
void limit_silence(int socket, std::chrono::nanoseconds longest);
/// Whether this errno value may mean that the peer's host is silent.
bool tells_silence(int error);

/// "127.0.0.1:4711".
std::string peer_of(int socket);
/// The source to which a connection from this peer ("127.0.0.1:4711", "[fe80::1]:4711") is counted: the IPv4
/// address, or the 64-bit prefix of the IPv6 address, within which a host can choose addresses freely.
std::string source_of(const std::string& peer);

/// Whether the first record of a connection is complete (first_record.hpp). The record stays in the socket.
/// `gone`: it will never be complete. While it is `missing`, the socket is reported readable only when more
/// of the record has been received.
enum class first_record : std::uint8_t { missing, whole, gone };
first_record look_for_first_record(int socket);

/// "Connection refused".
std::string text_of_errno(int number);

} // namespace farandole
