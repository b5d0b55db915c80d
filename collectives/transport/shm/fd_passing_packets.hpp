// The packets of fd_passing.hpp, one for each step. SOCK_SEQPACKET preserves packet boundaries.
//
//   peer  → offer   question    which member it is, and its nonce
//   offer → peer    challenge   the offer's nonce, and the offer's proof
//   peer  → offer   proof       the peer's proof
//   offer → peer    one byte with the descriptor
//
// A proof is an HMAC, under the job's secret, over a label for its side, the socket's name, the generation,
// the process set, the member and both nonces. A proof can therefore neither be replayed nor reflected as
// the proof of the other side. The two classes process packets without sockets and without waiting; only
// the transfer of the descriptor itself needs a socket.
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

/// Maximum size of a packet. A longer packet is invalid and need not be read in full.
inline constexpr std::size_t longest_fd_passing_packet = 64;

/// The offer's side of one exchange.
class fd_sender {
public:
  /// Returns the challenge if `packet` is a question from one of the members 1 … members-1, otherwise
  /// nothing. Call it once.
  std::optional<std::vector<std::byte>> answer(std::span<const std::byte> packet, const std::string& name,
                                               const fd_passing_terms& terms, std::uint32_t members);
  bool answered() const { return expected_proof_.has_value(); }
  /// Whether `packet` proves that the peer knows the secret. False unless answer() returned a challenge.
  bool proves(std::span<const std::byte> packet) const;
  /// The rank that the peer claims. Unauthenticated until proves() has returned true.
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
  /// Returns the proof that answers the challenge `packet`. The result is empty if `packet` is no
  /// challenge, and `precondition` if the offer cannot prove that it knows the secret.
  expected<std::vector<std::byte>> answer(std::span<const std::byte> packet) const;

private:
  const std::string& name_;
  const fd_passing_terms& terms_;
  std::uint32_t member_;
  fd_passing_bytes nonce_;
};

bool send_descriptor(int socket, int number);
/// Receives one byte with exactly one descriptor. If anything else arrives, the function closes all received
/// descriptors and returns an empty one.
descriptor receive_descriptor(int socket);

} // namespace farandole
