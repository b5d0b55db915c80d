// Feeds arbitrary bytes to the tcp path: to a listener's handshake, as chunks of an authenticated connection,
// and as the address in path addresses. No input may crash the process, and no handshake may succeed.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "collectives/transport/tcp/channel_handshake.hpp"
#include "collectives/transport/tcp/tcp_address.hpp"
#include "collectives/transport/tcp/tcp_channel.hpp"

using namespace farandole;

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

void to_listener(std::span<const std::byte> input) {
  static const auto credentials = std::make_shared<const tls_credentials>("a secret", data_purpose);
  const auto answerer =
      channel_handshake::answer(credentials, channel_group{7, 3, 0, 4, 1}, chunk_suite::aes_128_gcm);
  std::vector<std::byte> wire;
  static_cast<void>(answerer->feed(input, wire));
  require(!answerer->done() && !answerer->proved());
}

/// Feeds the chunks of a member, which are sealed correctly. The input gives the header and the plaintext of
/// each chunk.
void to_channel(std::span<const std::byte> input) {
  int sockets[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets) == 0);
  const descriptor peer{sockets[0]};
  chunk_cipher sealer{chunk_suite::aes_128_gcm, chunk_secret{1}};
  const channel_keys keys{chunk_suite::aes_128_gcm, {2}, {1}};
  tcp_channel channel{descriptor{sockets[1]}, keys, {}};
  std::vector<std::byte> small(4), large(3000);
  message_ticket ticket;
  channel.receive(message_phase::gather, 1, small, ticket);
  channel.receive(message_phase::gather, 1, large, ticket);
  channel.receive(message_phase::barrier, 1, {}, ticket);
  while (input.size() >= chunk_header::size + 2) {
    const auto header = input.first(chunk_header::size);
    const std::size_t length = std::to_integer<std::size_t>(input[chunk_header::size]) << 8 |
                               std::to_integer<std::size_t>(input[chunk_header::size + 1]);
    input = input.subspan(chunk_header::size + 2);
    const auto plain = input.first(std::min(length, input.size()));
    std::vector<std::byte> frame(header.begin(), header.end());
    frame.resize(chunk_header::size + plain.size() + chunk_tag_bytes);
    sealer.seal(header, plain, std::span{frame}.subspan(chunk_header::size));
    require(::send(peer.get(), frame.data(), frame.size(), MSG_NOSIGNAL) >= 0);
    input = input.subspan(plain.size());
    while (channel.read()) {
    }
  }
  channel.seek_goodbye();
  while (channel.read()) {
  }
  require(ticket.pending <= 3);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0 || size > 60'000)
    return 0;
  const auto input = std::as_bytes(std::span{data, size}).subspan(1);
  if (data[0] % 3 == 0)
    to_listener(input);
  else if (data[0] % 3 == 1)
    to_channel(input);
  else if (const auto address =
               tcp_address::parse({reinterpret_cast<const char*>(input.data()), input.size()}))
    require(tcp_address::parse(address->text()) && *tcp_address::parse(address->text()) == *address);
  return 0;
}
