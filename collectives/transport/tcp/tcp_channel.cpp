#include "collectives/transport/tcp/tcp_channel.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "collectives/transport/connections/sockets.hpp"

namespace farandole {
namespace {

constexpr std::size_t frame_of(std::size_t plaintext_bytes) {
  return chunk_header::size + plaintext_bytes + chunk_tag_bytes;
}
constexpr std::size_t frame_limit = frame_of(chunk_bytes_limit);
/// Minimum number of bytes to request in one read, so that one system call gets many small messages, or the
/// start of a large one.
constexpr std::size_t small_read = std::size_t{4} << 10;
/// Number of chunks to move in one direction before the other direction gets its turn.
constexpr int turn = 2;

} // namespace

tcp_channel::tcp_channel(descriptor socket, const channel_keys& keys, std::span<const std::byte> early)
    : socket_(std::move(socket)), sealer_(keys.suite, keys.sealing),
      opener_(keys.suite, keys.opening), sealed_{std::make_unique_for_overwrite<std::byte[]>(frame_limit)},
      came_{std::make_unique_for_overwrite<std::byte[]>(frame_limit + small_read)} {
  assert(early.size() <= small_read);
  std::copy(early.begin(), early.end(), came_.bytes.get());
  came_.to = early.size();
}

// ---- out -----------------------------------------------------------------------------------------

void tcp_channel::send(message_phase phase, std::uint64_t sequence, std::span<const std::byte> bytes,
                       message_ticket& ticket) {
  ++ticket.pending;
  sends_.push_back({phase, sequence, bytes.data(), bytes.size(), &ticket});
  if (sends_.size() == 1 && sealed_.from == sealed_.to)
    write();
}

/// A goodbye may follow a chunk in the middle of a message; the rest of that message is never sent.
void tcp_channel::say_goodbye(const goodbye& parting) {
  if (closed())
    return;
  sends_.clear();
  last_words_ = parting.encode();
  send(message_phase::goodbye, 0, last_words_, unheeded_);
}

bool tcp_channel::write() {
  bool moved = false;
  for (int chunks = 0; chunks < turn && wants_to_write();) {
    if (sealed_.from == sealed_.to) {
      sealed_.from = sealed_.to = 0;
      while (seal_next())
        moved = true;
      ++chunks;
    }
    const ssize_t sent = ::send(socket_.get(), &sealed_.bytes[sealed_.from], sealed_.to - sealed_.from,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR)
        continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        // Reading goes on: bytes that the peer sent before it closed the connection are still in the socket.
        deaf_peer_ = true;
        fail(text_of_errno(errno), false);
      }
      break;
    }
    moved = true;
    sealed_.from += static_cast<std::size_t>(sent);
  }
  return moved;
}

/// Small messages share the buffer and so a system call.
bool tcp_channel::seal_next() {
  if (sends_.empty())
    return false;
  outgoing& next = sends_.front();
  const auto header = chunk_header::of(next.phase, next.sequence, next.left);
  const std::size_t frame = frame_of(header.bytes);
  if (sealed_.to + frame > frame_limit)
    return false;
  const auto clear = header.encode();
  std::copy(clear.begin(), clear.end(), &sealed_.bytes[sealed_.to]);
  sealer_.seal(clear, {next.from, header.bytes},
               {&sealed_.bytes[sealed_.to + chunk_header::size], header.bytes + chunk_tag_bytes});
  sealed_.to += frame;
  next.from += header.bytes;
  next.left -= header.bytes;
  if (next.left == 0) {
    --next.ticket->pending;
    sends_.pop_front();
  }
  return true;
}

// ---- in ------------------------------------------------------------------------------------------

void tcp_channel::receive(message_phase phase, std::uint64_t sequence, std::span<std::byte> bytes,
                          message_ticket& ticket) {
  ++ticket.pending;
  receives_.push_back({phase, sequence, bytes.data(), bytes.size(), &ticket});
  early_ = false;
}

bool tcp_channel::read() {
  bool moved = false;
  for (int chunks = 0; chunks < turn && wants_to_read();) {
    if (open_next()) {
      moved = true;
      ++chunks;
    } else if (!wants_to_read() || !fill()) {
      break;
    } else {
      moved = true;
    }
  }
  return moved;
}

/// Reads one chunk and the header of the next in one system call.
bool tcp_channel::fill() {
  if (came_.from != 0) {
    std::memmove(came_.bytes.get(), &came_.bytes[came_.from], came_.to - came_.from);
    came_.to -= came_.from;
    came_.from = 0;
  }
  // While the header of the next chunk is unknown, assume that the chunk belongs to the oldest pending
  // receive().
  std::size_t frame = next_frame_;
  if (came_.to < chunk_header::size && !receives_.empty())
    frame = frame_of(std::min(receives_.front().left, chunk_bytes_limit));
  std::size_t wanted = frame + chunk_header::size - std::min(came_.to, frame);
  wanted = std::min(std::max(wanted, small_read), frame_limit + small_read - came_.to);
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), &came_.bytes[came_.to], wanted, MSG_DONTWAIT);
    if (got > 0) {
      came_.to += static_cast<std::size_t>(got);
      return true;
    }
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      return false;
    end_.reached = true;
    if (!heard_goodbye_)
      fail(got == 0 ? "it has closed the connection" : text_of_errno(errno), false);
    return false;
  }
}

bool tcp_channel::open_next() {
  const std::size_t index = came_.to - came_.from;
  next_frame_ = chunk_header::size;
  if (index < next_frame_)
    return false;
  const std::span<const std::byte, chunk_header::size> clear{&came_.bytes[came_.from], chunk_header::size};
  const auto header = chunk_header::decode(clear);
  if (!header) {
    fail("it sent a malformed chunk", true);
    return false;
  }
  const std::size_t frame = next_frame_ = frame_of(header->bytes);
  if (index < frame)
    return false;
  if (header->phase == message_phase::goodbye || seeks_goodbye_)
    return open_in_place(clear, header->bytes) && take_or_forget(*header);
  const auto target = std::find_if(receives_.begin(), receives_.end(), [&](const incoming& incoming) {
    return incoming.phase == header->phase && incoming.sequence == header->sequence;
  });
  // The header is untrusted until the tag of the chunk has authenticated it.
  if (target == receives_.end()) {
    early_ = open_in_place(clear, header->bytes);
    return false;
  }
  if (header->left != target->left) {
    if (open_in_place(clear, header->bytes))
      fail("it sent " + std::to_string(header->left) + " bytes where " + std::to_string(target->left) +
               " were expected",
           true);
    return false;
  }
  if (!open_into(target->to, clear, header->bytes))
    return false;
  consume(header->bytes);
  target->to += header->bytes;
  target->left -= header->bytes;
  if (target->left == 0) {
    --target->ticket->pending;
    receives_.erase(target);
  }
  return true;
}

bool tcp_channel::open_in_place(std::span<const std::byte> clear, std::size_t bytes) {
  if (!opened_)
    opened_ = open_into(&came_.bytes[came_.from + chunk_header::size], clear, bytes);
  return opened_;
}

bool tcp_channel::open_into(std::byte* target, std::span<const std::byte> clear, std::size_t bytes) {
  std::byte* payload = &came_.bytes[came_.from + chunk_header::size];
  if (opened_) {
    std::copy_n(payload, bytes, target);
    return true;
  }
  if (opener_.open(clear, {payload, bytes + chunk_tag_bytes}, {target, bytes}))
    return true;
  fail("its data does not authenticate: it was changed on the way", true);
  return false;
}

void tcp_channel::consume(std::size_t bytes) {
  came_.from += frame_of(bytes);
  next_frame_ = chunk_header::size;
  opened_ = false;
}

bool tcp_channel::take_or_forget(const chunk_header& header) {
  const std::byte* payload = &came_.bytes[came_.from + chunk_header::size];
  if (header.phase == message_phase::goodbye) {
    if (header.left != heard_.size()) {
      fail("it said goodbye in " + std::to_string(header.left) + " bytes", true);
      return false;
    }
    std::copy_n(payload, heard_.size(), heard_.begin());
    heard_goodbye_ = true;
  }
  consume(header.bytes);
  return !end_.reached;
}

// ---- the end -------------------------------------------------------------------------------------

void tcp_channel::fail(const std::string& reason, bool cheated) {
  if (end_.reason.empty()) {
    end_.reason = reason;
    end_.cheated = cheated;
  }
  end_.reached = end_.reached || cheated;
}

void tcp_channel::seek_goodbye() {
  seeks_goodbye_ = true;
  early_ = false;
  receives_.clear();
}

void tcp_channel::discard() {
  receives_.clear();
  while (!closed() && !end_.reached) {
    const ssize_t got = ::recv(socket_.get(), came_.bytes.get(), frame_limit, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
      continue;
    end_.reached = got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
    if (got <= 0)
      return;
  }
}

bool tcp_channel::flushed() const {
  int unsent = 0;
  if (closed() || deaf_peer_)
    return true;
  return !wants_to_write() && (::ioctl(socket_.get(), SIOCOUTQ, &unsent) != 0 || unsent == 0);
}

void tcp_channel::finish() {
  if (!closed())
    ::shutdown(socket_.get(), SHUT_WR);
  deaf_peer_ = true;
}

void tcp_channel::close() {
  socket_.close();
  sends_.clear();
  receives_.clear();
}

} // namespace farandole
