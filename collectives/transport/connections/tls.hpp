// A TLS 1.3 session, which proves that both ends know the job's secret and encrypts and authenticates the
// bytes between them. The secret is an external pre-shared key; there is one cipher suite and no certificates
// or tickets. The session does no I/O: the owner of the socket passes received bytes to it and sends the
// bytes that it produces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/connections/first_record.hpp"
#include "messages/values/error.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace farandole {

/// Fills `key` by HKDF with SHA-256 and no salt.
void derive_key(std::span<const unsigned char> secret, std::string_view purpose,
                std::span<unsigned char> key);

/// The purpose for which the pre-shared key of a link is derived. Each purpose gives another key, so that a
/// session of one kind cannot be mistaken for a session of another kind.
inline constexpr std::string_view link_purpose = "farandole link pre-shared key";

/// The keys that both ends derive from the job's secret. Created once and shared by all sessions of a job.
class tls_credentials {
public:
  /// The secret is any text. Use at least 16 random bytes.
  explicit tls_credentials(std::string_view secret, std::string_view purpose = link_purpose);
  ~tls_credentials();
  tls_credentials(const tls_credentials&) = delete;
  tls_credentials& operator=(const tls_credentials&) = delete;

private:
  friend class tls_session;
  std::array<unsigned char, 32> key_{};
  ssl_ctx_st* client_ = nullptr;
  ssl_ctx_st* server_ = nullptr;
};

enum class tls_side : std::uint8_t { client, server };

enum class tls_state : std::uint8_t {
  handshaking,
  open,   ///< both ends have proved the secret
  closed, ///< the peer has ended its direction
  failed, ///< permanently; the error was returned when it occurred
};

/// One end of one connection. Not thread-safe.
class tls_session {
public:
  tls_session(std::shared_ptr<const tls_credentials> credentials, tls_side side);
  ~tls_session();
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  tls_state state() const { return state_; }

  /// Processes bytes received from the peer; call it with none to make a client send its hello. Appends
  /// decrypted bytes to `plain`, and bytes that the caller must send to the peer to `wire`. On failure `wire`
  /// also gets an alert that tells the peer the reason.
  error feed(std::span<const std::byte> received, std::vector<std::byte>& plain,
             std::vector<std::byte>& wire);

  /// Encrypts `plain` and appends it to `wire`. Only when open, or closed by the peer.
  error seal(std::span<const std::byte> plain, std::vector<std::byte>& wire);

  /// Fills `key` with bytes that only the two ends of this session can derive (RFC 8446, section 7.5). Only
  /// when open.
  error export_key(std::string_view label, std::span<const std::byte> context, std::span<unsigned char> key);

  /// Appends the alert close_notify, which tells the peer that no more data follows.
  void finish(std::vector<std::byte>& wire);

private:
  error advance(std::vector<std::byte>& plain);
  error look_for_hello(std::span<const std::byte> received, bool answered);
  error fail(std::string_view text);
  void take_wire(std::vector<std::byte>& wire);

  std::shared_ptr<const tls_credentials> credentials_;
  ssl_st* ssl_ = nullptr;
  tls_state state_ = tls_state::handshaking;
  // Only for a server that has not answered the peer's hello: the number of received bytes, and the first of
  // them.
  bool awaits_hello_ = false;
  std::size_t received_bytes_ = 0;
  std::array<std::byte, record_header_bytes> first_{};
};

} // namespace farandole
