#include "collectives/transport/shm/fd_passing_packets.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cassert>
#include <cstring>
#include <string_view>

namespace farandole {

namespace {

struct question_packet {
  std::uint32_t member;
  fd_passing_bytes nonce;
};
struct challenge_packet {
  fd_passing_bytes nonce;
  fd_passing_bytes proof;
};
static_assert(sizeof(question_packet) == 36 && sizeof(challenge_packet) == longest_fd_passing_packet,
              "packets have no gaps");

constexpr std::string_view offer_label = "farandole window: offer";
constexpr std::string_view take_label = "farandole window: taker";

/// More descriptors than a peer may send. The space lets the kernel deliver unexpected descriptors, so that
/// this process can close them.
constexpr std::size_t most_descriptors = 8;

fd_passing_bytes fresh_nonce() {
  fd_passing_bytes nonce;
  const auto got = getrandom(nonce.data(), nonce.size(), 0);
  assert(got == static_cast<ssize_t>(nonce.size()));
  return nonce;
}

fd_passing_bytes prove(std::string_view label, const std::string& name, const fd_passing_terms& terms,
                       std::uint32_t member, const fd_passing_bytes& peer_nonce,
                       const fd_passing_bytes& offer_nonce) {
  std::string text;
  const auto add = [&](const void* data, std::size_t size) {
    text.append(static_cast<const char*>(data), size);
  };
  add(label.data(), label.size());
  add(name.data(), name.size());
  add(&terms.generation, sizeof terms.generation);
  add(&terms.set, sizeof terms.set);
  add(&member, sizeof member);
  add(peer_nonce.data(), peer_nonce.size());
  add(offer_nonce.data(), offer_nonce.size());
  fd_passing_bytes proof;
  unsigned length = 0;
  const auto* made =
      HMAC(EVP_sha256(), terms.secret.data(), static_cast<int>(terms.secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), proof.data(), &length);
  assert(made != nullptr && length == proof.size());
  return proof;
}

bool equal(const fd_passing_bytes& a, const fd_passing_bytes& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

template <class Packet>
bool read_packet(std::span<const std::byte> bytes, Packet& packet) {
  if (bytes.size() != sizeof packet)
    return false;
  std::memcpy(&packet, bytes.data(), sizeof packet);
  return true;
}

template <class Packet>
std::vector<std::byte> bytes_of(const Packet& packet) {
  const auto bytes = std::as_bytes(std::span(&packet, 1));
  return {bytes.begin(), bytes.end()};
}

} // namespace

// ---- the offer ----------------------------------------------------------------------------------

std::optional<std::vector<std::byte>> fd_sender::answer(std::span<const std::byte> packet,
                                                        const std::string& name,
                                                        const fd_passing_terms& terms,
                                                        std::uint32_t members) {
  question_packet asked;
  if (answered() || !read_packet(packet, asked) || asked.member < 1 || asked.member >= members)
    return std::nullopt;
  member_ = asked.member;
  const auto nonce = fresh_nonce();
  expected_proof_ = prove(take_label, name, terms, member_, asked.nonce, nonce);
  return bytes_of(challenge_packet{nonce, prove(offer_label, name, terms, member_, asked.nonce, nonce)});
}

bool fd_sender::proves(std::span<const std::byte> packet) const {
  fd_passing_bytes proof;
  return answered() && read_packet(packet, proof) && equal(proof, *expected_proof_);
}

// ---- the peer -----------------------------------------------------------------------------------

fd_receiver::fd_receiver(const std::string& name, const fd_passing_terms& terms, std::uint32_t member)
    : name_(name), terms_(terms), member_(member), nonce_(fresh_nonce()) {}

std::vector<std::byte> fd_receiver::question() const {
  return bytes_of(question_packet{member_, nonce_});
}

expected<std::vector<std::byte>> fd_receiver::answer(std::span<const std::byte> packet) const {
  challenge_packet challenge;
  if (!read_packet(packet, challenge))
    return std::vector<std::byte>();
  if (!equal(challenge.proof, prove(offer_label, name_, terms_, member_, nonce_, challenge.nonce)))
    return error{
        error_kind::precondition,
        "the shared segment is offered by a process that does not know this job's secret or belongs to "
        "another generation or process set"};
  return bytes_of(prove(take_label, name_, terms_, member_, nonce_, challenge.nonce));
}

// ---- the descriptor -----------------------------------------------------------------------------

bool send_descriptor(int socket, int number) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(control), &number, sizeof number);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

// The kernel has already installed every received descriptor in this process, so the function takes
// ownership of all of them before it checks their number.
descriptor receive_descriptor(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(most_descriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  const auto count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (count < 0)
    return {};
  std::vector<descriptor> came;
  for (auto* control = CMSG_FIRSTHDR(&message); control; control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
      continue;
    const auto end = control->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= end; at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(control) + at, sizeof number);
      came.emplace_back(number);
    }
  }
  const bool whole = count == 1 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole && came.size() == 1 ? std::move(came.front()) : descriptor();
}

} // namespace farandole
