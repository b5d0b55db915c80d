#include "actors/event_loop/link_send_queue.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "actors/event_loop/framing.hpp"

namespace farandole {

namespace {

/// Maximum of sealed but unsent bytes; above it, queued messages stay unsealed.
constexpr std::size_t sealed_bytes = 256 * 1024;
/// Small messages are collected up to this size and then sealed together.
constexpr std::size_t gather_bytes = 64 * 1024;

} // namespace

void link_send_queue::push(const envelope& message) {
  queued_bytes_ += message.bytes().size() + frame_header_bytes;
  queue_.push_back(message);
}

error link_send_queue::seal_some(tls_session& tls) {
  std::vector<std::byte> gathered;
  error problem;
  while (!queue_.empty() && unsent() + gathered.size() < sealed_bytes && !problem) {
    auto bytes = queue_.front().bytes();
    append_frame(gathered, bytes);
    queued_bytes_ -= bytes.size() + frame_header_bytes;
    queue_.pop_front();
    if (gathered.size() >= gather_bytes) {
      problem = tls.seal(gathered, sealed_);
      gathered.clear();
    }
  }
  if (!problem && !gathered.empty())
    problem = tls.seal(gathered, sealed_);
  return problem;
}

link_send_queue::progress link_send_queue::send(int socket) {
  while (unsent() > 0) {
    auto put = ::send(socket, sealed_.data() + sent_, unsent(), MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return errno == EAGAIN ? progress::blocked : progress::failed;
    sent_ += static_cast<std::size_t>(put);
  }
  forget_sealed();
  if (sealed_.capacity() > 4 * sealed_bytes)
    sealed_.shrink_to_fit();
  return progress::done;
}

void link_send_queue::forget_sealed() {
  sealed_.clear();
  sent_ = 0;
}

} // namespace farandole
