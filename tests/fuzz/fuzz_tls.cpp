// Feeds arbitrary bytes of a peer without the job's secret to the session of a listener, to the session of a
// caller, and to an open session. No byte may be accepted as data of a member, no session may open, the
// answer must be bounded, and a failed session must stay failed. The first byte selects the target, the
// second the size of the pieces.
#include <array>
#include <memory>

#include "collectives/transport/connections/first_record.hpp"
#include "collectives/transport/connections/tls.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

/// The limit for the answers of a handshake and an alert, so that a listener cannot be used to amplify
/// traffic.
constexpr std::size_t most_wire_bytes = 8192;
/// After this number of bytes, a record's header and the first byte of its message have arrived.
constexpr std::size_t telling_bytes = record_header_bytes + 1;

const std::shared_ptr<const tls_credentials>& credentials() {
  static const auto made = std::make_shared<const tls_credentials>("a secret of a job");
  return made;
}

void feed_stranger(tls_session& session, std::span<const std::byte> stream, std::size_t piece) {
  std::vector<std::byte> plain, wire;
  bool failed = false;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    const auto problem = session.feed(stream.subspan(at, std::min(piece, stream.size() - at)), plain, wire);
    require(static_cast<bool>(problem) == (session.state() == tls_state::failed));
    require(!failed || session.state() == tls_state::failed);
    failed = session.state() == tls_state::failed;
    require(plain.empty() && wire.size() <= most_wire_bytes);
  }
}

void to_listener(std::span<const std::byte> stream, std::size_t piece) {
  const auto first = stream.first(std::min(stream.size(), record_header_bytes));
  const auto wanted = first_record_bytes(first);
  require(wanted >= 1 && wanted <= record_header_bytes + 16384);
  tls_session session{credentials(), tls_side::server};
  feed_stranger(session, stream, piece);
  require(session.state() != tls_state::open);
  // Bytes for which the listener need not wait cannot be a hello.
  if (wanted == 1 && stream.size() >= telling_bytes)
    require(session.state() == tls_state::failed);
}

void to_caller(std::span<const std::byte> stream, std::size_t piece) {
  tls_session session{credentials(), tls_side::client};
  std::vector<std::byte> plain, hello;
  require(!session.feed({}, plain, hello) && first_record_bytes(hello) == hello.size());
  feed_stranger(session, stream, piece);
  require(session.state() != tls_state::open);
}

/// Both ends are authenticated; then an attacker on the path inserts bytes.
void into_open(std::span<const std::byte> stream, std::size_t piece) {
  tls_session caller{credentials(), tls_side::client}, listener{credentials(), tls_side::server};
  std::vector<std::byte> plain, to_listener, to_caller;
  require(!caller.feed({}, plain, to_listener));
  while (!to_listener.empty() || !to_caller.empty()) {
    require(!listener.feed(std::exchange(to_listener, {}), plain, to_caller));
    require(!caller.feed(std::exchange(to_caller, {}), plain, to_listener));
  }
  require(caller.state() == tls_state::open && listener.state() == tls_state::open && plain.empty());
  feed_stranger(listener, stream, piece);
  require(listener.state() != tls_state::closed);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  constexpr void (*targets[])(std::span<const std::byte>, std::size_t) = {to_listener, to_caller, into_open};
  auto* const target = input.among(targets);
  const std::size_t piece = std::size_t{input.byte()} * 16 + 1;
  target(input.rest(), piece);
  return 0;
}
