// A session that proves that both ends know the job's secret, and hides and guards what they say: TLS 1.3
// with the secret as external pre-shared key, one cipher suite, no certificates, no tickets. Pure: bytes go
// in, bytes come out; whoever owns the socket moves them.
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

/// HKDF with SHA-256, no salt: fills `key`.
void derive_key(std::span<const unsigned char> secret, std::string_view purpose,
                std::span<unsigned char> key);

/// What the pre-shared key of a link is derived for. Another purpose gives another key, so that a session of
/// one kind cannot be taken for one of another.
inline constexpr std::string_view link_purpose = "farandole link pre-shared key";

/// What both ends derive from the job's secret. Made once, shared by all sessions of a job.
class tls_credentials {
public:
  /// The secret is any text; 16 random bytes or more are worth having.
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
  closed, ///< the peer said that nothing follows
  failed, ///< for good; the error was returned when it happened
};

/// One end of one connection. Not thread-safe.
class tls_session {
public:
  tls_session(std::shared_ptr<const tls_credentials> credentials, tls_side side);
  ~tls_session();
  tls_session(const tls_session&) = delete;
  tls_session& operator=(const tls_session&) = delete;

  tls_state state() const { return state_; }

  /// Takes what came from the peer (nothing, to make a client speak first). Appends what the peer said to
  /// `plain` and what must be sent to it to `wire`; an alert that tells the peer why goes there too, when
  /// this fails.
  error feed(std::span<const std::byte> received, std::vector<std::byte>& plain,
             std::vector<std::byte>& wire);

  /// Appends `plain`, sealed, to `wire`. Only when open.
  error seal(std::span<const std::byte> plain, std::vector<std::byte>& wire);

  /// Fills `key` with bytes that only the two ends of this session can derive (RFC 8446, section 7.5). Only
  /// when open.
  error export_key(std::string_view label, std::span<const std::byte> context, std::span<unsigned char> key);

  /// Appends the word that nothing follows.
  void finish(std::vector<std::byte>& wire);

private:
  error advance(std::vector<std::byte>& plain);
  error look_for_hello(std::span<const std::byte> received, bool answered);
  error fail(std::string_view text);
  void take_wire(std::vector<std::byte>& wire);

  std::shared_ptr<const tls_credentials> credentials_;
  ssl_st* ssl_ = nullptr;
  tls_state state_ = tls_state::handshaking;
  // Of a server that has not answered its peer's hello: what has come, and how it began.
  bool awaits_hello_ = false;
  std::size_t received_bytes_ = 0;
  std::array<std::byte, record_header_bytes> first_{};
};

} // namespace farandole
