#include "collectives/transport/connections/sockets.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>

#include "collectives/transport/connections/first_record.hpp"
#include "collectives/transport/connections/port_holders.hpp"

namespace farandole {

namespace {

struct socket_address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

expected<socket_address> address_of(const std::string& ip, std::uint16_t port) {
  socket_address result;
  auto* four = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* six = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (::inet_pton(AF_INET, ip.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    result.length = sizeof *four;
  } else if (::inet_pton(AF_INET6, ip.c_str(), &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    result.length = sizeof *six;
  } else {
    return error{error_kind::invalid_argument, "'" + ip + "' is no IP address"};
  }
  return result;
}

std::string shown(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
    return std::string{text} + ":" + std::to_string(ntohs(four.sin_port));
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  ::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
  return "[" + std::string{text} + "]:" + std::to_string(ntohs(six.sin6_port));
}

void set(int socket, int level, int option, int value) {
  // These options only improve a connection, so an option that the system does not know is ignored.
  [[maybe_unused]] int done = ::setsockopt(socket, level, option, &value, sizeof value);
}

void tune(int socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

error system_error(const std::string& text) {
  return {error_kind::unknown, text + ": " + text_of_errno(errno)};
}

} // namespace

std::string text_of_errno(int number) {
  return std::generic_category().message(number);
}

namespace {

/// Sets `in_use` if the port is in use.
expected<descriptor> try_to_listen(const std::string& ip, std::uint16_t port, bool& in_use) {
  auto address = address_of(ip, port);
  if (!address)
    return address.error();
  descriptor socket{
      ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP)};
  if (!socket)
    return system_error("cannot make a socket");
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(socket.get(), address->get(), address->length) != 0 || ::listen(socket.get(), SOMAXCONN) != 0) {
    in_use = errno == EADDRINUSE;
    return system_error("cannot listen on " + shown(address->storage));
  }
  return socket;
}

} // namespace

expected<descriptor> open_listener(const std::string& ip, std::uint16_t port) {
  bool in_use = false;
  return try_to_listen(ip, port, in_use);
}

expected<std::vector<descriptor>> open_listeners(std::span<const std::string> ips, const port_range& ports) {
  // A port that the system has picked for the first address may be in use on another one.
  constexpr std::size_t most_picks = 16;
  const auto candidates =
      ports.any() ? std::vector<std::uint16_t>(most_picks, 0) : ports.from(std::random_device{}());
  error problem;
  for (const auto candidate : candidates) {
    std::vector<descriptor> opened;
    bool in_use = false;
    for (const auto& ip : ips) {
      auto socket = try_to_listen(ip, opened.empty() ? candidate : port_of(opened.front()), in_use);
      if (!socket) {
        problem = socket.error();
        break;
      }
      opened.push_back(std::move(*socket));
    }
    if (opened.size() == ips.size())
      return opened;
    if (!in_use || (ports.any() && opened.empty()))
      return problem;
  }
  if (ports.any())
    return problem;
  return error{error_kind::unknown,
               "cannot listen on " + ips.front() + ": all ports of FARANDOLE_PORT_RANGE=" + ports.text() +
                   " are in use (" + port_holders(ports) + "); choose a range with more ports"};
}

expected<descriptor> open_listener(const std::string& ip, const port_range& ports) {
  auto opened = open_listeners(std::span(&ip, 1), ports);
  if (!opened)
    return opened.error();
  return std::move(opened->front());
}

std::uint16_t port_of(const descriptor& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

expected<descriptor> start_connecting(const std::string& ip, std::uint16_t port, int* number) {
  auto address = address_of(ip, port);
  if (!address)
    return address.error();
  descriptor socket{
      ::socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP)};
  if (!socket)
    return system_error("cannot make a socket");
  tune(socket.get());
  if (::connect(socket.get(), address->get(), address->length) != 0 && errno != EINPROGRESS) {
    if (number != nullptr)
      *number = errno;
    return system_error("cannot connect to " + shown(address->storage));
  }
  return socket;
}

int connect_result(int socket) {
  int result = 0;
  socklen_t length = sizeof result;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &result, &length) != 0)
    return errno;
  return result;
}

accepted_socket accept_one(int listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  descriptor socket{
      ::accept4(listener, reinterpret_cast<sockaddr*>(&address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC)};
  if (!socket)
    return {{}, errno, {}};
  tune(socket.get());
  return {std::move(socket), 0, shown(address)};
}

bool must_pause_accepting(int error) {
  return error != EAGAIN && error != EWOULDBLOCK && error != EINTR && error != ECONNABORTED;
}

std::size_t descriptors_allowed() {
  rlimit rlimit{};
  return ::getrlimit(RLIMIT_NOFILE, &rlimit) == 0 ? static_cast<std::size_t>(rlimit.rlim_cur) : 1024;
}

// Keepalive probes begin after half of the time, and the connection ends when all of it has passed. Data that
// was sent and not acknowledged stops the probes, and the kernel would retransmit it for a quarter of an
// hour, so TCP_USER_TIMEOUT limits that too.
void limit_silence(int socket, std::chrono::nanoseconds longest) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
  const auto seconds_of = [&](std::int64_t parts) {
    return static_cast<int>(std::clamp<std::int64_t>(ms / parts / 1000, 1, 32767)); // limit of the kernel
  };
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds_of(2));
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, seconds_of(6));
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(ms));
}

bool tells_silence(int error) {
  return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
}

std::string source_of(const std::string& peer) {
  const auto colon = peer.rfind(':');
  const bool bracketed =
      peer.starts_with('[') && colon != std::string::npos && colon > 1 && peer[colon - 1] == ']';
  auto ip = bracketed ? peer.substr(1, colon - 2) : peer.substr(0, colon);
  in6_addr six{};
  if (::inet_pton(AF_INET6, ip.c_str(), &six) != 1)
    return ip;
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&six))
    return ::inet_ntop(AF_INET, six.s6_addr + 12, text, sizeof text);
  std::fill(std::begin(six.s6_addr) + 8, std::end(six.s6_addr), std::uint8_t{0});
  return ::inet_ntop(AF_INET6, &six, text, sizeof text);
}

first_record look_for_first_record(int socket) {
  // Once the peer has closed its direction, the socket is always reported readable, regardless of
  // SO_RCVLOWAT. Check this first: no more data can be received after the close, so the count of bytes below
  // is final.
  pollfd end{socket, POLLRDHUP, 0};
  const bool ended = ::poll(&end, 1, 0) == 1;
  std::array<std::byte, record_header_bytes> first;
  const auto got = ::recv(socket, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
    return first_record::gone;
  const auto needed =
      first_record_bytes(std::span{first}.first(static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
  int present = 0;
  const bool whole = ::ioctl(socket, FIONREAD, &present) == 0 && static_cast<std::size_t>(present) >= needed;
  if (ended && !whole)
    return first_record::gone;
  set(socket, SOL_SOCKET, SO_RCVLOWAT, whole ? 1 : static_cast<int>(needed));
  return whole ? first_record::whole : first_record::missing;
}

std::string peer_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return "a peer that is gone";
  return shown(address);
}

} // namespace farandole
