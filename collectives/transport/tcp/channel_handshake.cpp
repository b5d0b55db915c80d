#include "collectives/transport/tcp/channel_handshake.hpp"

#include <openssl/crypto.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "collectives/transport/connections/first_record.hpp"

namespace farandole {
namespace {

/// First bytes of each hello. They change whenever the format of anything after them changes.
constexpr std::array<char, 16> format = {"farandole tcp 1"};
constexpr std::string_view caller_label = "EXPORTER-farandole chunks of the caller";
constexpr std::string_view answer_label = "EXPORTER-farandole chunks of the answerer";

/// RFC 8446, sections 5.1 and 5.2: content types from change_cipher_spec to application_data, and the
/// maximum length of the ciphertext of one record.
constexpr tls_record_rules any_record{20, 23, 16384 + 256};

/// In host byte order: all members run the same build.
struct hello {
  std::array<char, 16> format{};
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  std::uint32_t cross_host_group = 0;
  std::int32_t members = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::uint32_t suite = 0; ///< caller: the preferred suite, with flag only_aes; answer: the chosen suite
};
static_assert(sizeof(hello) == 48);
/// Flag in hello::suite of a member that supports only AES.
constexpr std::uint32_t only_aes = 0x100;

error refused(const std::string& reason) {
  return {error_kind::precondition, reason};
}

} // namespace

channel_keys::~channel_keys() {
  OPENSSL_cleanse(sealing.data(), sealing.size());
  OPENSSL_cleanse(opening.data(), opening.size());
}

channel_handshake::channel_handshake(std::shared_ptr<const tls_credentials> credentials,
                                     const channel_group& group, chunk_suite preferred, std::int32_t peer)
    : group_(group), suite_(preferred), only_aes_(!available(chunk_suite::chacha20_poly1305)),
      calls_(peer >= 0), peer_(peer),
      session_(std::move(credentials), peer >= 0 ? tls_side::client : tls_side::server) {}

std::unique_ptr<channel_handshake> channel_handshake::call(std::shared_ptr<const tls_credentials> credentials,
                                                           const channel_group& group, chunk_suite preferred,
                                                           std::int32_t peer) {
  assert(peer >= 0 && peer < group.rank);
  return std::unique_ptr<channel_handshake>{
      new channel_handshake(std::move(credentials), group, preferred, peer)};
}

std::unique_ptr<channel_handshake>
channel_handshake::answer(std::shared_ptr<const tls_credentials> credentials, const channel_group& group,
                          chunk_suite preferred) {
  return std::unique_ptr<channel_handshake>{
      new channel_handshake(std::move(credentials), group, preferred, -1)};
}

/// Feeds the session one record at a time, because the bytes after the hello are not TLS.
expected<std::size_t> channel_handshake::feed(std::span<const std::byte> received,
                                              std::vector<std::byte>& wire) {
  if (calls_ && received.empty() && record_.empty()) {
    std::vector<std::byte> nothing;
    if (error problem = session_.feed({}, nothing, wire))
      return problem;
  }
  std::size_t taken = 0;
  while (!done_ && taken < received.size()) {
    const std::size_t missing = *tls_record_bytes(record_, any_record) - record_.size();
    const auto part = received.subspan(taken, std::min(missing, received.size() - taken));
    record_.insert(record_.end(), part.begin(), part.end());
    taken += part.size();
    const auto wanted = tls_record_bytes(record_, any_record);
    if (!wanted)
      return refused("received data is not a TLS record");
    if (record_.size() == *wanted)
      if (error problem = feed_record(wire))
        return problem;
  }
  return taken;
}

error channel_handshake::feed_record(std::vector<std::byte>& wire) {
  error problem = session_.feed(record_, heard_, wire);
  record_.clear();
  if (problem)
    return problem;
  if (session_.state() == tls_state::closed)
    return refused("the peer closed the connection before its hello");
  if (session_.state() != tls_state::open)
    return {};
  if (calls_ && spoken_.empty())
    if (error failed = say_hello(wire))
      return failed;
  if (heard_.size() < sizeof(hello))
    return {};
  if (error failed = hear_hello())
    return failed;
  if (!calls_)
    if (error failed = say_hello(wire))
      return failed;
  return export_keys();
}

error channel_handshake::say_hello(std::vector<std::byte>& wire) {
  const auto suite = static_cast<std::uint32_t>(suite_) | (only_aes_ ? only_aes : 0);
  const hello greeting{format,         group_.generation, group_.set, group_.cross_host_group,
                       group_.members, group_.rank,       peer_,      suite};
  const auto bytes = std::as_bytes(std::span{&greeting, 1});
  spoken_.assign(bytes.begin(), bytes.end());
  return session_.seal(spoken_, wire);
}

error channel_handshake::hear_hello() {
  hello theirs;
  if (heard_.size() != sizeof theirs)
    return refused("the peer's hello is too long");
  std::memcpy(&theirs, heard_.data(), sizeof theirs);
  if (theirs.format != format)
    return refused("the peer speaks another format: all members must run the same version");
  if (theirs.generation != group_.generation)
    return refused("the peer is in generation " + std::to_string(theirs.generation) + ", this member in " +
                   std::to_string(group_.generation));
  if (theirs.set != group_.set || theirs.cross_host_group != group_.cross_host_group ||
      theirs.members != group_.members)
    return refused("the peer's connection is for another process set");
  // Only higher ranks connect, so this check refuses a member's own connection that is reflected to it.
  const bool expected_rank = calls_ ? theirs.from == peer_ : theirs.from > group_.rank;
  if (!expected_rank || theirs.from >= group_.members || theirs.to != group_.rank)
    return refused("the peer's connection is from rank " + std::to_string(theirs.from) + " to rank " +
                   std::to_string(theirs.to) + " of its set, which is not this one");
  peer_ = theirs.from;
  return agree_on_suite(theirs.suite);
}

/// Chooses AES if both ends run it faster or one end supports nothing else; otherwise ChaCha20-Poly1305,
/// which is fast on every processor.
error channel_handshake::agree_on_suite(std::uint32_t theirs) {
  const auto suite = static_cast<chunk_suite>(theirs & ~only_aes);
  const bool needs_aes = only_aes_ || (theirs & only_aes) != 0;
  if ((suite != chunk_suite::aes_128_gcm && suite != chunk_suite::chacha20_poly1305) ||
      (calls_ && needs_aes && suite != chunk_suite::aes_128_gcm))
    return refused("the peer asks for a cipher that is unknown here");
  if (calls_)
    suite_ = suite;
  else if (needs_aes)
    suite_ = chunk_suite::aes_128_gcm;
  else if (suite_ != suite)
    suite_ = chunk_suite::chacha20_poly1305;
  return {};
}

error channel_handshake::export_keys() {
  // The context is both hellos, first the one of the connecting end.
  std::vector<std::byte> context = calls_ ? spoken_ : heard_;
  const auto& second = calls_ ? heard_ : spoken_;
  context.insert(context.end(), second.begin(), second.end());
  keys_.suite = suite_;
  if (error problem = session_.export_key(calls_ ? caller_label : answer_label, context, keys_.sealing))
    return problem;
  if (error problem = session_.export_key(calls_ ? answer_label : caller_label, context, keys_.opening))
    return problem;
  done_ = true;
  return {};
}

} // namespace farandole
