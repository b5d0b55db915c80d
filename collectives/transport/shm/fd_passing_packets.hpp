// The packets of a hand-off (handoff.hpp), one a step; SOCK_SEQPACKET keeps their borders:
//
//   peer  → offer   question    which member it is, and its nonce
//   offer → peer    challenge   the offer's nonce, and the offer's proof
//   peer  → offer   proof       the peer's proof
//   offer → peer    one byte with the descriptor
//
// A proof is an HMAC under the job's secret over its own label, the socket's name, generation, set, member
// and both nonces: neither side's proof can be replayed, nor sent back as the other's. What each side makes
// of a packet is decided here, without sockets and without waiting; only the descriptor needs a socket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/shm/fd_passing.hpp"
#include "messages/values/descriptor.hpp"

namespace farandole {

using fd_passing_bytes = std::array<unsigned char, 32>;

/// No packet is longer; more than this need not be read to know that a packet is none of these.
inline constexpr std::size_t longest_fd_passing_packet = 64;

/// The offer's side of one exchange.
class fd_sender {
public:
  /// The challenge, if `packet` is a question of one of members 1 … members-1. Call once.
  std::optional<std::vector<std::byte>> answer(std::span<const std::byte> packet, const std::string& name,
                                               const fd_passing_terms& terms, std::uint32_t members);
  bool answered() const { return expected_proof_.has_value(); }
  /// Only when answered: whether `packet` proves that the peer knows the secret.
  bool proves(std::span<const std::byte> packet) const;
  /// As it says. Not to be believed before proves().
  std::uint32_t member() const { return member_; }

private:
  std::uint32_t member_ = 0;
  std::optional<fd_passing_bytes> expected_proof_;
};

/// The peer's side of one exchange.
class fd_receiver {
public:
  fd_receiver(const std::string& name, const fd_passing_terms& terms, std::uint32_t member);

  std::vector<std::byte> question() const;
  /// The proof that answers a challenge; empty if `packet` is no challenge; `precondition` if the offer
  /// cannot prove the secret.
  expected<std::vector<std::byte>> answer(std::span<const std::byte> packet) const;

private:
  const std::string& name_;
  const fd_passing_terms& terms_;
  std::uint32_t member_;
  fd_passing_bytes nonce_;
};

bool send_descriptor(int socket, int number);
/// The one descriptor that came with one byte; empty where anything else has come, of which nothing is kept.
descriptor receive_descriptor(int socket);

} // namespace farandole
