#include "cuda/fake/fake_nccl_frames_testing.hpp"

#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fake_nccl {

namespace {

constexpr std::size_t read_bytes = std::size_t{1} << 20;
constexpr int waiting_connections = 256;

struct address {
  sockaddr_un value{};
  socklen_t bytes = 0;

  explicit address(const std::string& name) {
    value.sun_family = AF_UNIX; // sun_path begins with a null byte: the abstract namespace
    const auto text = "farandole-fake-nccl-" + name;
    std::copy(text.begin(), text.end(), value.sun_path + 1);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }
};

bool is_own_user(int connected) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::geteuid();
}

/// Closes a descriptor; keeps errno.
int refuse(int descriptor, int reason) {
  ::close(descriptor);
  errno = reason;
  return -1;
}

} // namespace

frame::frame(frame_header head, std::vector<unsigned char> bytes) : header(head) {
  header.bytes = bytes.size();
  data = std::make_shared<const std::vector<unsigned char>>(std::move(bytes));
}

frame::frame(frame_header head, frame_data bytes) : header(head), data(std::move(bytes)) {
  header.bytes = data->size();
}

frame_socket::frame_socket(int descriptor) : descriptor_(descriptor) {}

frame_socket::~frame_socket() {
  ::close(descriptor_);
}

bool frame_socket::send() {
  while (!unsent_.empty()) {
    const auto& next = unsent_.front();
    const auto total = sizeof next.header + next.header.bytes;
    const bool in_header = sent_ < sizeof next.header;
    const auto* begin = in_header ? reinterpret_cast<const unsigned char*>(&next.header) + sent_
                                  : next.data->data() + (sent_ - sizeof next.header);
    const auto bytes = in_header ? sizeof next.header - sent_ : total - sent_;
    const auto result = ::send(descriptor_, begin, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (result < 0 && errno == EINTR)
      continue;
    if (result < 0)
      return errno == EAGAIN;
    sent_ += static_cast<std::size_t>(result);
    if (sent_ == total) {
      unsent_.pop_front();
      sent_ = 0;
    }
  }
  return true;
}

void frame_socket::parse(const std::function<void(frame)>& visit) {
  std::size_t done = 0;
  for (frame_header header; received_.size() - done >= sizeof header;) {
    std::memcpy(&header, received_.data() + done, sizeof header);
    if (header.bytes > received_.size() - done - sizeof header)
      break;
    const auto begin = received_.begin() + static_cast<std::ptrdiff_t>(done + sizeof header);
    visit(
        frame(header, std::vector<unsigned char>(begin, begin + static_cast<std::ptrdiff_t>(header.bytes))));
    done += sizeof header + header.bytes;
  }
  received_.erase(received_.begin(), received_.begin() + static_cast<std::ptrdiff_t>(done));
}

bool frame_socket::receive(const std::function<void(frame)>& visit) {
  for (;;) {
    const auto before = received_.size();
    received_.resize(before + read_bytes);
    const auto result = ::recv(descriptor_, received_.data() + before, read_bytes, MSG_DONTWAIT);
    received_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(result, 0)));
    if (result > 0)
      continue;
    if (result < 0 && errno == EINTR)
      continue;
    const bool is_open = result < 0 && errno == EAGAIN;
    parse(visit);
    return is_open;
  }
}

wake_descriptor::wake_descriptor() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

wake_descriptor::~wake_descriptor() {
  ::close(descriptor_);
}

void wake_descriptor::wake() const {
  const std::uint64_t add = 1;
  if (::write(descriptor_, &add, sizeof add) < 0)
    return; // it is readable already
}

void wake_descriptor::clear() const {
  std::uint64_t count = 0;
  if (::read(descriptor_, &count, sizeof count) < 0)
    return; // wake() was not called
}

std::string random_name() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    return {};
  std::string result;
  for (const auto byte : bytes)
    for (const unsigned digit : {byte / 16U, byte % 16U})
      result += "0123456789abcdef"[digit];
  return result;
}

int listen_at(const std::string& name) {
  const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const address own(name);
  if (listening < 0)
    return -1;
  if (::bind(listening, own.get(), own.bytes) != 0 || ::listen(listening, waiting_connections) != 0)
    return refuse(listening, errno);
  return listening;
}

int connect_to(const std::string& name) {
  const int connected = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const address peer(name);
  if (connected < 0)
    return -1;
  if (::connect(connected, peer.get(), peer.bytes) != 0)
    return refuse(connected, errno);
  return is_own_user(connected) ? connected : refuse(connected, EPERM);
}

int accept_own_user(int listening) {
  const int connected = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  return connected < 0 || is_own_user(connected) ? connected : refuse(connected, EPERM);
}

} // namespace fake_nccl
