#include "collectives/transport/shm/fd_passing.hpp"

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

#include "collectives/transport/connections/sockets.hpp"
#include "collectives/transport/shm/fd_passing_packets.hpp"

namespace farandole {

namespace {

using std::chrono::steady_clock;

/// Maximum duration of one poll(). An abort has no descriptor that poll() could watch, so the loops check
/// for it at least this often. These waits happen only when a set starts.
constexpr std::chrono::milliseconds longest_sleep{10};

error failed(const std::string& doing) {
  return {error_kind::unknown,
          "handing over the shared segment: " + doing + " failed: " + std::strerror(errno)};
}

std::optional<error> ended(const deadline_and_abort& deadline) {
  if (deadline.abort.raised())
    return error{error_kind::disconnected, "the group changed while its shared segment was handed over"};
  if (steady_clock::now() >= deadline.deadline)
    return error{error_kind::timed_out, "the shared segment was not handed over before the " +
                                            deadline.deadline_setting + " passed"};
  return std::nullopt;
}

/// Process id of the peer, or nothing if another user runs it.
std::optional<pid_t> process_of_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid())
    return std::nullopt;
  return peer.pid;
}

/// An address in the abstract namespace: the first byte of the path is zero, and no file is created.
struct abstract_address {
  sockaddr_un address{};
  socklen_t size = 0;
  explicit abstract_address(const std::string& name) {
    address.sun_family = AF_UNIX;
    const std::size_t length = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), length);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

bool send_packet(int socket, std::span<const std::byte> packet) {
  return send(socket, packet.data(), packet.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(packet.size());
}

/// Receives one packet. Returns nothing if it is longer than longest_fd_passing_packet.
std::vector<std::byte> receive_packet(int socket) {
  std::vector<std::byte> packet(longest_fd_passing_packet);
  const auto size = recv(socket, packet.data(), packet.size(), MSG_TRUNC); // returns the real length
  packet.resize(size < 0 || static_cast<std::size_t>(size) > packet.size() ? 0
                                                                           : static_cast<std::size_t>(size));
  return packet;
}

/// Timeout for poll() in milliseconds: until the deadline, at most longest_sleep.
int poll_time(const deadline_and_abort& deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline.deadline - steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count() + 1, 0, longest_sleep.count()));
}

/// One connection to the offer. Its peer may be unauthenticated.
struct visitor {
  descriptor socket;
  bool asks = false; ///< its question has arrived and is not answered yet
  fd_sender exchange = {};

  enum class step { stay, refuse, served };

  step answer_question(const std::string& name, const fd_passing_terms& terms, std::uint32_t members) {
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

expected<std::unique_ptr<segment_offer>> segment_offer::open() {
  descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener)
    return failed("socket");
  unsigned char random[16];
  const auto got = getrandom(random, sizeof random, 0);
  assert(got == static_cast<ssize_t>(sizeof random));
  std::string name = "farandole-";
  for (const auto entry : random) {
    name += "0123456789abcdef"[entry >> 4];
    name += "0123456789abcdef"[entry & 15];
  }
  const abstract_address address(name);
  if (bind(listener.get(), address.get(), address.size) != 0)
    return failed("bind");
  if (listen(listener.get(), SOMAXCONN) != 0)
    return failed("listen");
  return std::unique_ptr<segment_offer>(new segment_offer(std::move(name), std::move(listener)));
}

segment_offer::segment_offer(std::string name, descriptor listener)
    : name_(std::move(name)), listener_(std::move(listener)) {}

namespace {

/// All connections to an offer. connections/handshake_table.hpp decides their order, so a process that
/// opens many connections and sends nothing cannot keep other processes out.
class visitors {
public:
  visitors(const std::string& name, const fd_passing_terms& terms, int listener, int shared,
           std::uint32_t members, const handshake_limits& limits)
      : name_(name), terms_(terms), listener_(listener), shared_(shared), has_it_(members),
        missing_(members - 1), table_(limits.within(descriptors_allowed())) {}

  std::uint32_t missing() const { return missing_; }

  error step(const deadline_and_abort& deadline) {
    polled_.assign(1, pollfd{paused_until_ ? -1 : listener_, POLLIN, 0});
    for (const auto& [which, entry] : all_)
      polled_.push_back({entry.asks ? -1 : entry.socket.get(), POLLIN, 0});
    if (poll(polled_.data(), polled_.size(), poll_time(deadline)) < 0 && errno != EINTR)
      return failed("poll");
    const auto current_time = steady_clock::now();
    std::size_t at = 0;
    for (auto next = all_.begin(); next != all_.end();) {
      const auto position = next++;
      if (polled_[++at].revents != 0)
        hear(position->first, position->second);
    }
    for (const auto& eviction : table_.overdue(current_time))
      all_.erase(eviction.which);
    if (paused_until_ && current_time >= *paused_until_)
      paused_until_.reset();
    if (polled_[0].revents != 0)
      accept_next(current_time);
    while (const auto next = table_.begin_next(current_time)) {
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
    table_.remove(which); // served or refused; a peer that needs another attempt connects again
    all_.erase(which);
  }

  void accept_next(steady_clock::time_point current_time) {
    descriptor socket(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (must_pause_accepting(errno))
        paused_until_ = current_time + accept_pause;
      return;
    }
    const auto process = process_of_same_user(socket.get());
    if (!process)
      return;
    if (const auto evicted = table_.accept(++last_, std::to_string(*process), current_time))
      all_.erase(evicted->which);
    all_[last_].socket = std::move(socket);
  }

  const std::string& name_;
  const fd_passing_terms& terms_;
  const int listener_;
  const int shared_;
  std::vector<bool> has_it_; ///< by member
  std::uint32_t missing_;
  handshake_table table_;
  std::map<number, visitor> all_; ///< the same connections as in table_
  number last_ = 0;
  std::optional<steady_clock::time_point> paused_until_; ///< no accept() until then: descriptors ran out
  std::vector<pollfd> polled_;
};

} // namespace

error segment_offer::serve(const fd_passing_terms& terms, int shared, std::uint32_t members,
                           const deadline_and_abort& deadline, const handshake_limits& limits) {
  visitors visitors{name_, terms, listener_.get(), shared, members, limits};
  while (visitors.missing() > 0) {
    if (auto end = ended(deadline))
      return *end;
    if (auto problem = visitors.step(deadline))
      return problem;
  }
  return {};
}

namespace {

/// Waits until `socket` is readable. Returns false after an abort or at the deadline.
bool await_readable(int socket, const deadline_and_abort& deadline) {
  while (!ended(deadline)) {
    pollfd polled{socket, POLLIN, 0};
    if (poll(&polled, 1, poll_time(deadline)) > 0)
      return true;
  }
  return false;
}

/// One attempt to get the descriptor. An empty result means that the caller should try again.
expected<descriptor> ask_once(const std::string& name, const fd_passing_terms& terms, std::uint32_t member,
                              const deadline_and_abort& deadline) {
  descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket)
    return failed("socket");
  const abstract_address address(name);
  if (connect(socket.get(), address.get(), address.size) != 0)
    return descriptor(); // the offer does not exist yet, or its backlog is full
  if (!process_of_same_user(socket.get()))
    return error{error_kind::precondition, "the shared segment is offered by another user"};
  const fd_receiver exchange(name, terms, member);
  if (!send_packet(socket.get(), exchange.question()) || !await_readable(socket.get(), deadline))
    return descriptor();
  const auto proof = exchange.answer(receive_packet(socket.get()));
  if (!proof)
    return proof.error();
  if (proof->empty() || !send_packet(socket.get(), *proof) || !await_readable(socket.get(), deadline))
    return descriptor();
  // If this process has reached its descriptor limit, the kernel would drop the received descriptor, and a
  // retry could not succeed either.
  if (!descriptor(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)))
    return failed("recvmsg");
  return receive_descriptor(socket.get());
}

} // namespace

expected<descriptor> take_segment(const std::string& name, const fd_passing_terms& terms,
                                  std::uint32_t member, const deadline_and_abort& deadline) {
  for (;;) {
    if (auto end = ended(deadline))
      return *end;
    auto taken = ask_once(name, terms, member, deadline);
    if (!taken || *taken)
      return taken;
    poll(nullptr, 0, std::min(poll_time(deadline), 2));
  }
}

} // namespace farandole
