// The mutual authentication of two members before any tensor moves between them:
// 1. TLS 1.3 with a pre-shared key derived from the job's secret;
// 2. one hello each way that names the process set, the generation and the two ranks of the connection;
// 3. one secret for each direction from the exporter of the TLS session.
// The class does no I/O: received bytes go in, and bytes to send come out.
//
// A replayed connection fails because both ends contribute fresh randomness to TLS. A connection that an
// attacker reflects to its caller or redirects to another member fails because the hello names both ranks.
// A connection of an earlier generation fails because the hello names the generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/connections/tls.hpp"
#include "collectives/transport/tcp/chunk_cipher.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Purpose for the key derivation. A key with this purpose is valid for data connections only.
inline constexpr std::string_view data_purpose = "farandole data pre-shared key";

/// Identifies the members of one path, and this member among them.
struct channel_group {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::uint32_t cross_host_group = 0; ///< 0: the whole process set; else a cross-host group, numbered from 1
  std::int32_t members = 0;
  std::int32_t rank = 0; ///< within the path
};

/// The keys of an open connection. The destructor erases them from memory.
struct channel_keys {
  chunk_suite suite = chunk_suite::aes_128_gcm;
  chunk_secret sealing{};
  chunk_secret opening{};

  ~channel_keys();
};

/// One end of one connection. The higher rank connects and is the TLS client.
class channel_handshake {
public:
  /// Creates the end of the member that connects to `peer`.
  static std::unique_ptr<channel_handshake> call(std::shared_ptr<const tls_credentials> credentials,
                                                 const channel_group& group, chunk_suite preferred,
                                                 std::int32_t peer);
  /// Creates the end of the member that accepts the connection. The peer is unknown until its hello.
  static std::unique_ptr<channel_handshake> answer(std::shared_ptr<const tls_credentials> credentials,
                                                   const channel_group& group, chunk_suite preferred);

  /// Processes bytes from the peer and appends to `wire` the bytes to send to it, including an alert if
  /// this fails. The connecting end starts with an empty `received`. Returns the number of bytes consumed:
  /// all of them, unless the handshake is done(); the rest are chunks. Must not be called again after an
  /// error.
  expected<std::size_t> feed(std::span<const std::byte> received, std::vector<std::byte>& wire);

  /// Whether both ends are authenticated and the keys are known.
  bool done() const { return done_; }
  /// Whether the peer has proved that it knows the secret.
  bool proved() const { return session_.state() == tls_state::open; }
  std::int32_t peer() const { return peer_; }
  /// Valid once done().
  const channel_keys& keys() const { return keys_; }

private:
  channel_handshake(std::shared_ptr<const tls_credentials> credentials, const channel_group& group,
                    chunk_suite preferred, std::int32_t peer);
  error feed_record(std::vector<std::byte>& wire);
  error say_hello(std::vector<std::byte>& wire);
  error hear_hello();
  error agree_on_suite(std::uint32_t theirs);
  error export_keys();

  const channel_group group_;
  chunk_suite suite_;
  const bool only_aes_; ///< ChaCha20-Poly1305 is not available() in this process
  const bool calls_;
  std::int32_t peer_; ///< -1: not known yet
  tls_session session_;
  std::vector<std::byte> record_; ///< the received part of the current TLS record
  std::vector<std::byte> heard_;  ///< the received hello, as far as it has arrived
  std::vector<std::byte> spoken_; ///< the hello that was sent; empty: none yet
  channel_keys keys_;
  bool done_ = false;
};

} // namespace farandole
