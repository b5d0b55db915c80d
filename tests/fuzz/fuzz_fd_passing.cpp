// Feeds arbitrary packets of a process without the job's secret to both sides of the descriptor exchange.
// Neither side may accept them, and only a permitted descriptor may stay open. The first byte selects the
// target.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "collectives/transport/shm/fd_passing_packets.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

constexpr std::uint32_t members = 4;
const std::string name = "farandole-0123456789abcdef";
const fd_passing_terms terms{"a secret of a job", 7, 1};

void to_offer(choices& input) {
  fd_sender exchange;
  require(!exchange.proves({}));
  while (!input.done()) {
    const auto packet = std::as_bytes(input.bytes(2 * longest_fd_passing_packet));
    if (!exchange.answered()) {
      const auto challenge = exchange.answer(packet, name, terms, members);
      require(challenge.has_value() == exchange.answered());
      require(!challenge || (challenge->size() == 64 && packet.size() == 36 && exchange.member() >= 1 &&
                             exchange.member() < members));
    } else {
      require(!exchange.proves(packet));
      require(!exchange.answer(packet, name, terms, members));
    }
  }
}

void to_peer(choices& input) {
  const fd_receiver exchange(name, terms, 1);
  while (!input.done()) {
    const auto packet = std::as_bytes(input.bytes(2 * longest_fd_passing_packet));
    const auto proof = exchange.answer(packet);
    require(proof ? proof->empty() && packet.size() != 64 : packet.size() == 64);
  }
}

/// The lowest free descriptor number.
int lowest_free() {
  return descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
}

void send(int socket, std::span<const std::uint8_t> text, std::size_t descriptors) {
  static const descriptor sent(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  iovec part{const_cast<std::uint8_t*>(text.data()), text.size()};
  alignas(cmsghdr) char space[CMSG_SPACE(256 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptors > 0) {
    message.msg_control = space;
    message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    const int number = sent.get();
    for (std::size_t i = 0; i < descriptors; ++i)
      std::memcpy(CMSG_DATA(control) + i * sizeof number, &number, sizeof number);
  }
  require(::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
}

void descriptors(choices& input) {
  int sockets[2];
  require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
  const descriptor ours{sockets[0]}, theirs{sockets[1]};
  static_cast<void>(lowest_free());
  for (int packets = 0; packets < 8 && !input.done(); ++packets) {
    const auto count = std::min<std::size_t>(input.byte(), 253); // the kernel's limit
    const auto text = input.bytes(4);
    send(theirs.get(), text, count);
    const int before = lowest_free();
    {
      const auto came = receive_descriptor(ours.get());
      require(static_cast<bool>(came) == (text.size() == 1 && count == 1));
      require(!came || (::fcntl(came.get(), F_GETFD) & FD_CLOEXEC) != 0);
    }
    require(lowest_free() == before);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  constexpr void (*targets[])(choices&) = {to_offer, to_peer, descriptors};
  input.among(targets)(input);
  return 0;
}
