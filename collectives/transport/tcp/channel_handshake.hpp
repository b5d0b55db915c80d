// How two members prove to each other that they are before any tensor moves between them: TLS 1.3 with the
// job's secret as pre-shared key, then one hello each way that says which pair of which set and generation
// this connection belongs to, then a secret for each direction from the session's exporter. Pure: bytes go
// in, bytes come out.
//
// A recorded connection fails because both ends bring fresh randomness to TLS; a connection that somebody
// leads back to where it came from, or to another member, fails by its hello; one of an earlier generation
// likewise.
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

/// Derived with it, a key opens data connections and nothing else.
inline constexpr std::string_view data_purpose = "farandole data pre-shared key";

/// What the members of one path have in common, and which of them this is.
struct channel_group {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::uint32_t column = 0; ///< 0: the whole set; else one of its columns, counted from 1
  std::int32_t members = 0;
  std::int32_t rank = 0; ///< within the path
};

/// Of an open connection. Each copy is wiped out of memory when it goes.
struct channel_keys {
  chunk_suite suite = chunk_suite::aes_128_gcm;
  chunk_secret sealing{};
  chunk_secret opening{};

  ~channel_keys();
};

/// One end of one connection. The higher rank calls, as TLS client.
class channel_handshake {
public:
  /// The caller's end, towards this peer.
  static std::unique_ptr<channel_handshake> call(std::shared_ptr<const tls_credentials> credentials,
                                                 const channel_group& group, chunk_suite preferred,
                                                 std::int32_t peer);
  /// The end of who is called, by nobody knows whom.
  static std::unique_ptr<channel_handshake> answer(std::shared_ptr<const tls_credentials> credentials,
                                                   const channel_group& group, chunk_suite preferred);

  /// Takes what came from the peer (nothing, to make a caller speak first) and adds to `wire` what must be
  /// sent to it, an alert too if this fails. Returns how many bytes it took: all, unless done(); what is left
  /// are chunks. After an error nothing more may be fed.
  expected<std::size_t> feed(std::span<const std::byte> received, std::vector<std::byte>& wire);

  /// Both ends have proved who they are.
  bool done() const { return done_; }
  /// Whether the other end has proved that it knows the secret.
  bool proved() const { return session_.state() == tls_state::open; }
  std::int32_t peer() const { return peer_; }
  /// Once done.
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
  const bool only_aes_; ///< this host's OpenSSL refuses the other suite
  const bool calls_;
  std::int32_t peer_; ///< -1: unknown yet
  tls_session session_;
  std::vector<std::byte> record_; ///< of TLS, as far as it has come
  std::vector<std::byte> heard_;
  std::vector<std::byte> spoken_; ///< empty: no hello yet
  channel_keys keys_;
  bool done_ = false;
};

} // namespace farandole
