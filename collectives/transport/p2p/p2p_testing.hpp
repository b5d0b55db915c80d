// Tests of the paths between hosts with real processes. Each member is a forked child. The parent only passes
// addresses and words between the children, and never loads UCX.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/transport/forked_words_testing.hpp"
#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/tcp/tcp_path.hpp"
#include "collectives/transport/ucx/ucx_path.hpp"

namespace farandole::testing {

/// Opens the path with the name `between`. `names`: global ranks by rank.
inline expected<std::unique_ptr<p2p_path>> open_between(const std::string& between,
                                                        const p2p_options& settings,
                                                        const std::vector<std::int32_t>& names) {
  const auto filled = [&](auto options) {
    static_cast<p2p_options&>(options) = settings;
    options.generation = 7;
    options.set = 3;
    options.global_ranks = names;
    return options;
  };
  if (between == "ucx") {
    auto options = filled(ucx_options{});
    options.trusted_network = true; // UCX may use TCP
    return open_ucx_path(options);
  }
  auto options = filled(tcp_options{});
  options.secret = "the secret of this test";
  return open_tcp_path(options);
}

/// The state of a member in its child process.
struct member {
  std::string between;
  std::int32_t rank;
  std::int32_t size;
  int control;
  abort_token abort;
  std::function<void(message_phase, std::size_t)> probe;
  std::unique_ptr<p2p_path> path;

  deadline_and_abort deadline(std::chrono::milliseconds patience = std::chrono::seconds{60}) {
    return {abort, std::chrono::steady_clock::now() + patience, "patience (TEST_PATIENCE) = 60 s"};
  }
  /// Opens the path and connects to the other members. Returns an error text; empty on success.
  std::string join() {
    std::vector<std::int32_t> names;
    for (std::int32_t at = 0; at < size; ++at)
      names.push_back(10 + at);
    p2p_options options;
    options.probe = [this](message_phase phase, std::size_t piece) {
      if (probe)
        probe(phase, piece);
    };
    auto opened = open_between(between, options, names);
    if (!opened)
      return opened.error().text;
    path = std::move(*opened);
    std::vector<std::string> all(static_cast<std::size_t>(size));
    if (!put(control, path->address()))
      return "no parent";
    for (std::string& address : all)
      if (!take(control, address))
        return "no parent";
    if (error problem = path->connect(all, rank, deadline()))
      return problem.text;
    // Over tcp, a member may return from connect() while others are still connecting. If it died then, their
    // connect() would fail, so all members wait for each other here.
    work meeting;
    meeting.sequence = 1'000'000;
    meeting.operation = operation::barrier;
    return path->run(meeting, deadline()).error.text;
  }
};

/// A job of forked members. The body returns an error text, empty on success, which the child sends as its
/// last word.
class job {
public:
  job(const std::string& between, std::int32_t size, const std::function<std::string(member&)>& body) {
    for (std::int32_t rank = 0; rank < size; ++rank) {
      int ends[2];
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        for (int other : sockets_)
          ::close(other);
        ::close(ends[0]);
        live(between, rank, size, ends[1], body);
      }
      ::close(ends[1]);
      sockets_.push_back(ends[0]);
      children_.push_back(child);
    }
    std::vector<std::string> addresses;
    for (std::int32_t rank = 0; rank < size; ++rank)
      addresses.push_back(hear(rank));
    for (std::int32_t rank = 0; rank < size; ++rank)
      for (const std::string& address : addresses)
        tell(rank, address);
  }
  ~job() {
    for (int socket : sockets_)
      ::close(socket);
    for (pid_t child : children_)
      ::waitpid(child, nullptr, 0);
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  std::string hear(std::int32_t rank) {
    std::string word;
    return take(sockets_[static_cast<std::size_t>(rank)], word) ? word : "(dead)";
  }
  void tell(std::int32_t rank, const std::string& word) {
    put(sockets_[static_cast<std::size_t>(rank)], word);
  }

private:
  [[noreturn]] static void live(const std::string& between, std::int32_t rank, std::int32_t size, int control,
                                const std::function<std::string(member&)>& body) {
    member self{between, rank, size, control, {}, {}, {}};
    std::string answer = self.join();
    if (answer.empty())
      answer = body(self);
    self.path.reset();
    put(control, answer);
    ::_exit(0);
  }

  std::vector<int> sockets_;
  std::vector<pid_t> children_;
};

// ---- inputs and expected results -----------------------------------------------------------------

/// Equal on every member for equal arguments. The numbers are small, so that no reduction meets a NaN.
inline bytes contents(dtype type, std::size_t count, std::int32_t rank, std::size_t part) {
  bytes made(count * size_of(type));
  for (std::size_t at = 0; at < count; ++at) {
    const auto mixed =
        static_cast<std::uint32_t>((at * 2654435761U) ^ (static_cast<unsigned>(rank) * 40503U + part));
    switch (type) {
    case dtype::float32: {
      const float value = static_cast<float>(mixed % 20011) / 97.0F - 90.0F;
      std::memcpy(&made[at * 4], &value, 4);
      break;
    }
    case dtype::float64: {
      const double value = static_cast<double>(mixed % 20011) / 97.0 - 90.0;
      std::memcpy(&made[at * 8], &value, 8);
      break;
    }
    case dtype::bfloat16:
    case dtype::float16: { // finite: the exponent's top bit stays clear
      const auto value = static_cast<std::uint16_t>(mixed & 0xbfff);
      std::memcpy(&made[at * 2], &value, 2);
      break;
    }
    default:
      for (std::size_t byte = 0; byte < size_of(type); ++byte)
        made[at * size_of(type) + byte] = static_cast<std::byte>(mixed >> (8 * (byte % 4)));
    }
  }
  return made;
}

inline std::string differs(const std::string& text, const bytes& got, const bytes& wanted) {
  return got == wanted ? "" : text + " differs";
}

inline work broadcast_of(bytes& input, bytes& output, std::int32_t root) {
  work bundle;
  bundle.operation = operation::broadcast;
  bundle.dtype = dtype::uint8;
  bundle.root = root;
  bundle.parts.push_back({input.data(), output.data(), input.size(), {}});
  return bundle;
}

inline std::string barrier(member& self, std::uint64_t sequence) {
  work bundle;
  bundle.sequence = sequence;
  bundle.operation = operation::barrier;
  return self.path->run(bundle, self.deadline()).error.text;
}

/// An allreduce of one large tensor, whose pieces are sent from and received into the caller's memory.
inline work large_allreduce(bytes& buffer) {
  work bundle;
  bundle.dtype = dtype::float32;
  bundle.parts.push_back({buffer.data(), buffer.data(), buffer.size(), {}});
  return bundle;
}
inline constexpr std::size_t large_count = 800'000; // seven pieces

} // namespace farandole::testing
