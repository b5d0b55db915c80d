// Helpers for tests of tcp_meeting: members that one thread drives with a clock of the test's own, and a
// peer that impersonates a member.
#pragma once

#include <catch2/catch.hpp>

#include <poll.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/connections/sockets.hpp"
#include "collectives/transport/connections/stranger_testing.hpp"
#include "collectives/transport/tcp/tcp_meeting.hpp"

namespace farandole::testing {

using bytes = std::vector<std::byte>;

inline auto secret(std::string_view text = "the job's secret") {
  return std::make_shared<const tls_credentials>(text, data_purpose);
}

/// A member that connects to the other members.
struct attendee {
  descriptor listener;
  std::uint16_t port = 0;
  std::string address;
  std::unique_ptr<tcp_meeting> meeting{};
  std::vector<met_peer> met{};

  attendee() {
    auto opened = open_listener("127.0.0.1", 0);
    REQUIRE(opened);
    listener = std::move(*opened);
    port = port_of(listener);
    address = tcp_address{"127.0.0.1", port}.text();
  }
  void begin(const channel_group& group, std::span<const std::string> addresses,
             std::shared_ptr<const tls_credentials> credentials = secret(),
             const meeting_limits& bounds = {}) {
    meeting = std::make_unique<tcp_meeting>(std::move(listener), std::move(credentials), group,
                                            chunk_suite::aes_128_gcm, bounds);
    REQUIRE_FALSE(meeting->call(addresses, tcp_meeting::clock::now()));
  }
  /// Processes the pending events as if the clock were `later` ahead.
  void step(std::chrono::milliseconds later = {}) {
    std::vector<pollfd> polls;
    meeting->watch(polls);
    ::poll(polls.data(), polls.size(), 1);
    meeting->step(polls, tcp_meeting::clock::now() + later);
    for (met_peer& peer : meeting->take_met())
      met.push_back(std::move(peer));
  }
};

/// The members of one process set. All but the last have started to connect.
struct gathering {
  std::vector<attendee> members;
  std::vector<std::string> addresses;

  explicit gathering(std::int32_t size, const meeting_limits& bounds = {})
      : members(static_cast<std::size_t>(size)) {
    for (const attendee& member : members)
      addresses.push_back(member.address);
    for (std::int32_t rank = 0; rank + 1 < size; ++rank)
      members[static_cast<std::size_t>(rank)].begin({7, 3, 0, size, rank}, addresses, secret(), bounds);
  }
  attendee& last() { return members.back(); }
  /// Starts the last member, after the test has opened connections of unauthenticated peers.
  void last_comes() {
    const auto size = static_cast<std::int32_t>(members.size());
    last().begin({7, 3, 0, size, size - 1}, addresses);
  }
  /// Whether all members are connected within `rounds` rounds.
  bool meet(int rounds = 3000) {
    while (rounds-- > 0) {
      bool complete = true;
      for (attendee& member : members) {
        member.step();
        complete = complete && member.meeting->complete();
      }
      if (complete)
        return true;
    }
    return false;
  }
};

inline const channel_group as_rank_1{7, 3, 0, 2, 1};

/// Runs a handshake with the listener as a member of `group` would, until the handshake fails or 20 rounds
/// have passed.
inline void impersonate(attendee& listener, const stranger& impostor, const channel_group& group,
                        const std::shared_ptr<const tls_credentials>& credentials, bytes* record = nullptr) {
  auto handshake = channel_handshake::call(credentials, group, chunk_suite::aes_128_gcm, 0);
  bytes wire;
  REQUIRE(handshake->feed({}, wire));
  for (int round = 0; round < 20; ++round) {
    if (record != nullptr)
      record->insert(record->end(), wire.begin(), wire.end());
    if (!wire.empty())
      impostor.say(wire);
    wire.clear();
    listener.step();
    const bytes heard = impostor.hear();
    if (!heard.empty() && !handshake->feed(heard, wire))
      return;
  }
}

} // namespace farandole::testing
