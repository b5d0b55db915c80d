// A test peer that talks to a listener without any of the code that members use for it.
#pragma once

#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/values/descriptor.hpp"
#include "tests/patience.hpp"

namespace farandole::testing {

class stranger {
public:
  explicit stranger(descriptor connected) : socket(std::move(connected)) {}
  /// `source`: the loopback address to connect from.
  explicit stranger(std::uint16_t port, const char* source = "127.0.0.1")
      : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_in from = address_of(source, 0), to = address_of("127.0.0.1", port);
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0);
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  }

  /// The name of this peer in the listener's log.
  std::string name() const {
    sockaddr_in own{};
    socklen_t size = sizeof own;
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0);
    return "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
  }
  bool ready(short events, int longest_ms = patience_ms) const {
    pollfd descriptor{socket.get(), events, 0};
    return ::poll(&descriptor, 1, longest_ms) == 1;
  }
  /// Returns false if the other end no longer accepts data.
  bool try_to_say(std::span<const std::byte> words) const {
    return ::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(words.size());
  }
  void say(std::span<const std::byte> words) const { REQUIRE(try_to_say(words)); }
  void say(std::string_view words) const { say(std::as_bytes(std::span{words})); }
  /// The bytes that have been received so far.
  std::vector<std::byte> hear() const {
    std::vector<std::byte> heard(4096);
    const ssize_t got = ::recv(socket.get(), heard.data(), heard.size(), MSG_DONTWAIT);
    heard.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return heard;
  }
  /// Waits for the other end. Returns whether it has sent something, and has not closed the connection instead.
  bool is_answered() const {
    REQUIRE(ready(POLLIN));
    std::byte first;
    return ::recv(socket.get(), &first, 1, MSG_PEEK) == 1;
  }
  /// Whether the other end has closed the connection.
  bool refused() const {
    std::array<std::byte, 4096> ignored;
    for (;;) {
      const ssize_t got = ::recv(socket.get(), ignored.data(), ignored.size(), MSG_DONTWAIT);
      if (got <= 0)
        return got == 0 || errno == ECONNRESET;
    }
  }
  /// Reads until the other end closes the connection.
  std::vector<std::byte> rest() const {
    std::vector<std::byte> all;
    for (;;) {
      std::array<std::byte, 4096> buffer;
      REQUIRE(ready(POLLIN));
      const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0)
        return all;
      all.insert(all.end(), buffer.begin(), buffer.begin() + got);
    }
  }

  descriptor socket;

private:
  static sockaddr_in address_of(const char* ip, std::uint16_t port) {
    sockaddr_in end{};
    end.sin_family = AF_INET;
    end.sin_port = htons(port);
    REQUIRE(::inet_pton(AF_INET, ip, &end.sin_addr) == 1);
    return end;
  }
};

inline std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

} // namespace farandole::testing
