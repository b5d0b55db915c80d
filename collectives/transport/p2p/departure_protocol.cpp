#include "collectives/transport/p2p/departure_protocol.hpp"

#include <algorithm>
#include <cassert>

#include "collectives/transport/p2p/stop_reason.hpp"

namespace farandole {

void departure_protocol::meet(std::int32_t rank, std::int32_t members) {
  assert(peers_.empty() && rank >= 0 && rank < members);
  rank_ = rank;
  peers_.resize(static_cast<std::size_t>(members));
}

std::string departure_protocol::name_of(std::int32_t peer) const {
  const auto at = static_cast<std::size_t>(peer);
  return "rank " + std::to_string(at < names_.size() ? names_[at] : peer);
}

// ---- observations of the transport ---------------------------------------------------------------

void departure_protocol::lose_connection(std::int32_t peer, const std::string& reason) {
  auto& lost = peers_.at(static_cast<std::size_t>(peer));
  lost.closed = true;
  if (!lost.left())
    blame(peer, reason, true);
}

void departure_protocol::lose_message(std::int32_t peer, const std::string& reason) {
  require(peer);
  blame(peer, reason, true);
}

void departure_protocol::require(std::int32_t peer) {
  if (peers_.at(static_cast<std::size_t>(peer)).left())
    blame(peer, "it has left the job", false);
}

void departure_protocol::accuse(std::int32_t peer, const std::string& reason) {
  blame(peer, reason, false);
}

void departure_protocol::receive_goodbye(std::int32_t source, std::span<const std::byte> bytes) {
  const auto members = static_cast<std::int32_t>(peers_.size());
  if (source < 0 || source >= members || source == rank_)
    return;
  auto& received_goodbye = peers_[static_cast<std::size_t>(source)].received_goodbye;
  if (received_goodbye)
    return;
  received_goodbye = goodbye::decode(bytes, members);
  if (!received_goodbye)
    accuse(source, "it sent a malformed goodbye");
  else if (received_goodbye->culprit == source)
    blame(source, "it gave the operation up", false);
  else if (received_goodbye->culprit != goodbye::in_order)
    blame(received_goodbye->culprit, name_of(source) + " has lost it", false);
  else if (guessed_ && culprit_ == source)
    require(source);
}

void departure_protocol::fail(const error& reason) {
  if (!failure_)
    failure_ = reason;
}

void departure_protocol::settle() {
  if (!guessed_)
    return;
  guessed_ = false;
  std::string names;
  std::size_t lost = 0;
  for (std::int32_t at = 0; at < static_cast<std::int32_t>(peers_.size()); ++at) {
    const peer& peer = peers_[static_cast<std::size_t>(at)];
    if ((peer.closed && !peer.received_goodbye) || at == culprit_)
      names += (lost++ == 0 ? "" : ", ") + name_of(at);
  }
  failure_.text = text(names, lost > 1);
}

void departure_protocol::blame(std::int32_t culprit, const std::string& reason, bool guessed) {
  if (leaving_ || (failure_ && (guessed || !guessed_)))
    return;
  guessed_ = guessed;
  culprit_ = culprit;
  reason_ = reason;
  failure_ = {error_kind::disconnected, text(name_of(culprit), false)};
}

std::string departure_protocol::text(const std::string& lost, bool several) const {
  return lost + (several ? " are" : " is") + " lost to the " + path_ + " path: " + reason_;
}

// ---- decisions -----------------------------------------------------------------------------------

error departure_protocol::reason_to_stop(const deadline_and_abort& deadline,
                                         std::chrono::steady_clock::time_point limit,
                                         std::int32_t awaited) const {
  return failure_ ? failure_
                  : stop_reason(path_, deadline, limit, awaited < 0 ? std::string{} : name_of(awaited));
}

goodbye_round departure_protocol::leave(const awaited_message& awaited) {
  const bool in_order = !failure_;
  goodbye_round parting{
      {in_order ? goodbye::in_order : culprit(), awaited}, {}, in_order ? times_.orderly : times_.last_words};
  for (std::int32_t at = 0; at < static_cast<std::int32_t>(peers_.size()); ++at) {
    const peer& peer = peers_[static_cast<std::size_t>(at)];
    if (at != rank_ && !peer.closed && !peer.left() && (at != culprit_ || at == awaited.peer))
      parting.recipients.push_back(at);
  }
  leaving_ = true;
  guessed_ = false;
  fail({error_kind::disconnected, "the " + path_ + " path is closed"});
  return parting;
}

bool departure_protocol::all_departed() const {
  for (std::int32_t at = 0; at < static_cast<std::int32_t>(peers_.size()); ++at) {
    const peer& peer = peers_[static_cast<std::size_t>(at)];
    if (at != rank_ && !peer.closed && !peer.received_goodbye)
      return false;
  }
  return true;
}

void departure_protocol::compare_lengths(std::span<const awaited_message> own) {
  for (const awaited_message& message : own)
    if (const std::string found = difference(message); !found.empty()) {
      failure_.text += found;
      return;
    }
}

/// If the peer waits for a message of the same phase in the other direction, the two messages belong
/// together.
std::string departure_protocol::difference(const awaited_message& own) const {
  const auto& received_goodbye = peers_.at(static_cast<std::size_t>(own.peer)).received_goodbye;
  if (!received_goodbye || received_goodbye->awaited.peer != rank_ ||
      received_goodbye->awaited.receives == own.receives || received_goodbye->awaited.phase != own.phase ||
      received_goodbye->awaited.bytes == own.bytes)
    return {};
  const std::uint64_t sent = own.receives ? received_goodbye->awaited.bytes : own.bytes;
  const std::uint64_t expected = own.receives ? own.bytes : received_goodbye->awaited.bytes;
  return "; " + name_of(own.receives ? own.peer : rank_) + " sent " + std::to_string(sent) + " bytes where " +
         std::to_string(expected) + " were expected";
}

} // namespace farandole
