#include "tools/farandole/chaos/apart.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <utility>

#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "tools/farandole/chaos/child.hpp"

namespace farandole::chaos {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// Maximum times until the rendezvous listens, and until a killed one has ended.
constexpr auto start_time = 15s, end_time = 5s;

error system_error(const std::string& text) {
  return {error_kind::unknown, text + ": " + std::strerror(errno)};
}

} // namespace

apart_rendezvous::apart_rendezvous(apart_rendezvous&& other) noexcept
    : options_(std::move(other.options_)), port_(other.port_), child_(std::exchange(other.child_, -1)),
      said_(std::move(other.said_)) {}

apart_rendezvous::~apart_rendezvous() {
  kill();
}

expected<apart_rendezvous> apart_rendezvous::start(apart_options options) {
  apart_rendezvous made(std::move(options));
  if (auto problem = made.write_secret())
    return problem;
  if (auto problem = made.start_again())
    return problem;
  return made;
}

error apart_rendezvous::write_secret() const {
  const auto secret = make_secret();
  if (!secret)
    return secret.error();
  const descriptor file{::open(secret_file().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  const auto size = static_cast<ssize_t>(secret->size());
  if (!file || ::write(file.get(), secret->data(), secret->size()) != size)
    return system_error(secret_file());
  return {};
}

void apart_rendezvous::kill() {
  if (child_ < 0)
    return;
  ::kill(child_, SIGKILL);
  reap(std::exchange(child_, -1), end_time);
}

error apart_rendezvous::start_again() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return system_error("pipe2");
  said_ = descriptor{ends[0]};
  descriptor other{ends[1]};
  const auto limit = std::to_string(options_.processes);
  child_options options;
  options.words = {"farandole",     "rendezvous",
                   "-np",           limit,
                   "--max-np",      limit,
                   "--min-np",      std::to_string(options_.fewest),
                   "--bind",        options_.ip,
                   "--port",        std::to_string(port_),
                   "--journal",     options_.folder + "/journal",
                   "--secret-file", secret_file()};
  options.output = other.get();
  options.errors = options_.errors;
  options.network = options_.network;
  child_ = spawn(options);
  if (child_ < 0)
    return system_error("fork");
  other.close();
  const auto line = first_line(said_.get());
  const auto colon = line ? line->rfind(':') : std::string::npos;
  const auto* end = line ? line->data() + line->size() : nullptr;
  if (colon != std::string::npos && std::from_chars(line->data() + colon + 1, end, port_).ptr == end)
    return {};
  kill();
  return line ? error{error_kind::unknown, "the rendezvous said '" + *line + "'"} : line.error();
}

/// The first line that can be read from the descriptor, without the newline.
expected<std::string> apart_rendezvous::first_line(int from) const {
  std::string line;
  for (const auto deadline = clock::now() + start_time; clock::now() < deadline;) {
    pollfd waiting{from, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now());
    char letter = 0;
    if (::poll(&waiting, 1, static_cast<int>(std::max(left, 0ms).count())) <= 0)
      continue;
    const auto count = ::read(from, &letter, 1);
    if (count == 0)
      return error{error_kind::unknown, "the rendezvous ended before it listened"};
    if (count == 1 && letter == '\n')
      return line;
    if (count == 1)
      line += letter;
  }
  return error{error_kind::unknown, "the rendezvous did not come to listen"};
}

} // namespace farandole::chaos
