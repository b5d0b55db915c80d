// Sends strings between a test and its forked members, each preceded by its length.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

namespace farandole::testing {

inline bool put(int socket, const std::string& word) {
  const std::uint64_t length = word.size();
  std::string framed(reinterpret_cast<const char*>(&length), sizeof length);
  framed += word;
  for (std::size_t at = 0; at < framed.size();) {
    const ssize_t sent = ::send(socket, framed.data() + at, framed.size() - at, MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

inline bool take(int socket, std::string& word) {
  std::uint64_t length = 0;
  if (::recv(socket, &length, sizeof length, MSG_WAITALL) != static_cast<ssize_t>(sizeof length))
    return false;
  word.resize(length);
  return length == 0 || ::recv(socket, word.data(), length, MSG_WAITALL) == static_cast<ssize_t>(length);
}

} // namespace farandole::testing
