#include "collectives/paths/local/handoff.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "collectives/paths/connections/handshake_table.hpp"
#include "collectives/paths/connections/sockets.hpp"
#include "collectives/paths/local/handoff_packets.hpp"

namespace farandole {

namespace {

using std::chrono::steady_clock;

/// An abort has no descriptor to poll: no sleep here is longer. Only a start waits here, a few times.
constexpr std::chrono::milliseconds longest_sleep{10};

error failed(const std::string& doing) {
  return {error_kind::unknown,
          "handing over the shared window: " + doing + " failed: " + std::strerror(errno)};
}

std::optional<error> ended(const limits& until) {
  if (until.abort.raised())
    return error{error_kind::disconnected, "the group changed while its shared window was handed over"};
  if (steady_clock::now() >= until.deadline)
    return error{error_kind::timed_out,
                 "the shared window was not handed over before the " + until.deadline_setting + " passed"};
  return std::nullopt;
}

/// The process at the other end, where the same user runs it.
std::optional<pid_t> process_of_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid())
    return std::nullopt;
  return peer.pid;
}

/// Abstract: the first byte of the path is zero, and no file is left behind.
struct abstract_address {
  sockaddr_un where{};
  socklen_t size = 0;
  explicit abstract_address(const std::string& name) {
    where.sun_family = AF_UNIX;
    const std::size_t length = std::min(name.size(), sizeof where.sun_path - 1);
    std::memcpy(where.sun_path + 1, name.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&where); }
};

bool send_packet(int socket, std::span<const std::byte> packet) {
  return send(socket, packet.data(), packet.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
}

/// What has come, as far as a packet may be long; nothing where it is longer.
std::vector<std::byte> receive_packet(int socket) {
  std::vector<std::byte> packet(longest_handoff_packet);
  const auto size = recv(socket, packet.data(), packet.size(), MSG_TRUNC); // tells the true length
  packet.resize(size < 0 || static_cast<std::size_t>(size) > packet.size() ? 0
                                                                           : static_cast<std::size_t>(size));
  return packet;
}

/// Milliseconds to poll for: never past the deadline, never long.
int poll_time(const limits& until) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until.deadline - steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count() + 1, 0, longest_sleep.count()));
}

/// One peer, or stranger, on its way through the exchange.
struct visitor {
  descriptor socket;
  bool asks = false; ///< its question has come, and is not answered yet
  handoff_answerer exchange = {};

  enum class step { stay, refuse, served };

  step answer_question(const std::string& name, const handoff_terms& terms, std::uint32_t members) {
    const auto challenge = exchange.answer(receive_packet(socket.get()), name, terms, members);
    return challenge && send_packet(socket.get(), *challenge) ? step::stay : step::refuse;
  }

  step answer_proof(int shared) const {
    if (!exchange.proves(receive_packet(socket.get())))
      return step::refuse;
    return send_descriptor(socket.get(), shared) ? step::served : step::refuse;
  }
};

} // namespace

expected<std::unique_ptr<window_offer>> window_offer::open() {
  descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener)
    return failed("socket");
  unsigned char random[16];
  const auto got = getrandom(random, sizeof random, 0);
  assert(got == static_cast<ssize_t>(sizeof random));
  std::string name = "farandole-";
  for (const auto each : random) {
    name += "0123456789abcdef"[each >> 4];
    name += "0123456789abcdef"[each & 15];
  }
  const abstract_address where(name);
  if (bind(listener.get(), where.get(), where.size) != 0)
    return failed("bind");
  if (listen(listener.get(), SOMAXCONN) != 0)
    return failed("listen");
  return std::unique_ptr<window_offer>(new window_offer(std::move(name), std::move(listener)));
}

window_offer::window_offer(std::string name, descriptor listener)
    : name_(std::move(name)), listener_(std::move(listener)) {}

namespace {

/// Those that are connected to an offer, served as connections/handshake_table.hpp decides: a process that
/// opens many connections and says nothing keeps no other one out.
class visitors {
public:
  visitors(const std::string& name, const handoff_terms& terms, int listener, int shared,
           std::uint32_t members)
      : name_(name), terms_(terms), listener_(listener), shared_(shared), has_it_(members),
        missing_(members - 1), table_(handshake_limits{}.within(descriptors_allowed())) {}

  std::uint32_t missing() const { return missing_; }

  error step(const limits& until) {
    polled_.assign(1, pollfd{paused_until_ ? -1 : listener_, POLLIN, 0});
    for (const auto& [which, each] : all_)
      polled_.push_back({each.asks ? -1 : each.socket.get(), POLLIN, 0});
    if (poll(polled_.data(), polled_.size(), poll_time(until)) < 0 && errno != EINTR)
      return failed("poll");
    const auto now = steady_clock::now();
    std::size_t at = 0;
    for (auto next = all_.begin(); next != all_.end();) {
      const auto position = next++;
      if (polled_[++at].revents != 0)
        hear(position->first, position->second);
    }
    for (const auto& each : table_.overdue(now))
      all_.erase(each.which);
    if (paused_until_ && now >= *paused_until_)
      paused_until_.reset();
    if (polled_[0].revents != 0)
      accept_next(now);
    while (const auto next = table_.begin_next(now)) {
      visitor& asking = all_.at(*next);
      asking.asks = false;
      settle(*next, asking.answer_question(name_, terms_, static_cast<std::uint32_t>(has_it_.size())));
    }
    return {};
  }

private:
  using number = handshake_table::connection;

  void hear(number which, visitor& from) {
    if (from.exchange.answered())
      return settle(which, from.answer_proof(shared_));
    from.asks = true;
    table_.ready(which);
  }

  void settle(number which, visitor::step step) {
    if (step == visitor::step::stay)
      return;
    if (const auto member = all_.at(which).exchange.member();
        step == visitor::step::served && !has_it_[member]) {
      has_it_[member] = true;
      --missing_;
    }
    table_.remove(which); // a peer that was served or refused is done with; a peer comes again
    all_.erase(which);
  }

  void accept_next(steady_clock::time_point now) {
    descriptor socket(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (must_pause_accepting(errno))
        paused_until_ = now + accept_pause;
      return;
    }
    const auto process = process_of_same_user(socket.get());
    if (!process)
      return;
    if (const auto evicted = table_.accept(++last_, std::to_string(*process), now))
      all_.erase(evicted->which);
    all_[last_].socket = std::move(socket);
  }

  const std::string& name_;
  const handoff_terms& terms_;
  const int listener_;
  const int shared_;
  std::vector<bool> has_it_; ///< by member
  std::uint32_t missing_;
  handshake_table table_;
  std::map<number, visitor> all_; ///< those in the table
  number last_ = 0;
  std::optional<steady_clock::time_point> paused_until_; ///< for want of descriptors
  std::vector<pollfd> polled_;
};

} // namespace

error window_offer::serve(const handoff_terms& terms, int shared, std::uint32_t members,
                          const limits& until) {
  visitors here{name_, terms, listener_.get(), shared, members};
  while (here.missing() > 0) {
    if (auto end = ended(until))
      return *end;
    if (auto problem = here.step(until))
      return problem;
  }
  return {};
}

namespace {

/// Waits until `socket` can be read; false at the end of `until`.
bool await_readable(int socket, const limits& until) {
  while (!ended(until)) {
    pollfd polled{socket, POLLIN, 0};
    if (poll(&polled, 1, poll_time(until)) > 0)
      return true;
  }
  return false;
}

/// One attempt. An empty descriptor: try again.
expected<descriptor> ask_once(const std::string& name, const handoff_terms& terms, std::uint32_t member,
                              const limits& until) {
  descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    return failed("socket");
  const abstract_address where(name);
  if (connect(socket.get(), where.get(), where.size) != 0)
    return descriptor(); // not there yet, or its queue is full
  if (!process_of_same_user(socket.get()))
    return error{error_kind::precondition, "the shared window is offered by another user"};
  const handoff_asker exchange(name, terms, member);
  if (!send_packet(socket.get(), exchange.question()) || !await_readable(socket.get(), until))
    return descriptor();
  const auto proof = exchange.answer(receive_packet(socket.get()));
  if (!proof)
    return proof.error();
  if (proof->empty() || !send_packet(socket.get(), *proof) || !await_readable(socket.get(), until))
    return descriptor();
  // Where this process may open no more, the kernel drops what comes, and asking again would not help.
  if (!descriptor(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)))
    return failed("recvmsg");
  return receive_descriptor(socket.get());
}

} // namespace

expected<descriptor> take_window(const std::string& name, const handoff_terms& terms, std::uint32_t member,
                                 const limits& until) {
  for (;;) {
    if (auto end = ended(until))
      return *end;
    auto taken = ask_once(name, terms, member, until);
    if (!taken || *taken)
      return taken;
    poll(nullptr, 0, std::min(poll_time(until), 2));
  }
}

} // namespace farandole
