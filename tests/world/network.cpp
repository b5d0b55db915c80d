#include "tests/world/network.hpp"

#include <algorithm>
#include <utility>

#include "tests/world/simulation.hpp"

namespace farandole::testing {

namespace {

constexpr std::uint64_t network_stream = 77;

std::size_t at(std::int32_t rank) {
  return static_cast<std::size_t>(rank);
}

} // namespace

network::network(const job_options& options, const relay_tree& tree, chronicle& log)
    : options_(options), tree_(tree), log_(log), draw_(options.seed, network_stream),
      lines_(2 * at(options.members)) {}

void network::connect(line_ends ends) {
  ends_ = std::move(ends);
}

void network::disconnect() {
  ends_ = {};
}

caf::behavior network::behavior(caf::event_based_actor* self) {
  return {
      [=, this](const envelope& message) { accept(self, message); },
      [=, this](tick_atom, std::uint64_t link) { deliver(self, link); },
  };
}

void network::accept(caf::event_based_actor* self, const envelope& message) {
  const auto from = message.source();
  switch (message.kind()) {
  case wire::Envelope::Body::REQUESTS:
    count(message);
    if (!ends_.relays.empty() && ends_.relays[at(from)])
      return self->send(ends_.relays[at(from)], message);
    [[fallthrough]];
  case wire::Envelope::Body::GATHERED:
    return put_up(self, from, message);
  default:
    count_plans(message);
    if (message.target() <= 0)
      put_down(self, 0, message);
    hand_down(self, 0, message);
  }
}

// Forwards a message to the children concerned.
void network::hand_down(caf::event_based_actor* self, std::int32_t from, const envelope& message) {
  if (message.target() < 0)
    for (auto child : tree_.children(from))
      put_down(self, child, message);
  else if (const auto child = tree_.branch(from, message.target()); child >= 0)
    put_down(self, child, message);
}

void network::put_up(caf::event_based_actor* self, std::int32_t rank, const envelope& message) {
  put(self, at(rank), message);
}

void network::put_down(caf::event_based_actor* self, std::int32_t rank, const envelope& message) {
  if (rank != 0 && tree_.parent(rank) == 0)
    counted_.from_leader.add(message);
  put(self, at(options_.members) + at(rank), message);
}

void network::put(caf::event_based_actor* self, std::size_t link, const envelope& message) {
  auto& line = lines_[link];
  line.in_flight.push_back(message);
  auto takes = options_.latency_us + draw_.below(options_.jitter_us);
  if (draw_.one_in(options_.delayed))
    takes += draw_.below(options_.delay_us);
  const auto current_time = self->clock().now();
  line.last = std::max(line.last, current_time + std::chrono::microseconds(takes));
  self->delayed_send(self, line.last - current_time, tick_atom::value, static_cast<std::uint64_t>(link));
}

// The message sent first arrives first, whichever tick comes.
void network::deliver(caf::event_based_actor* self, std::size_t link) {
  auto& line = lines_[link];
  const auto begin = thread_time();
  auto arrived = envelope::parse(line.in_flight.front().bytes());
  const auto took = thread_time() - begin;
  line.in_flight.pop_front();
  if (!arrived)
    return log_.problem("a message could not be parsed: " + arrived.error().text);
  ++counted_.messages;
  counted_.bytes += arrived->bytes().size();
  const auto members = at(options_.members);
  const bool up = link < members;
  const auto rank = static_cast<std::int32_t>(up ? link : link - members);
  if (up && rank != 0 && tree_.parent(rank) == 0) {
    counted_.to_leader.add(*arrived);
    counted_.parsing += took;
  }
  if (ends_.workers.empty())
    return;
  up ? arrive_up(self, rank, std::move(*arrived)) : arrive_down(self, rank, *arrived);
}

void network::arrive_up(caf::event_based_actor* self, std::int32_t rank, envelope&& message) {
  const auto parent = tree_.parent(rank);
  self->send(parent <= 0 ? ends_.negotiator : ends_.relays[at(parent)], std::move(message));
}

void network::arrive_down(caf::event_based_actor* self, std::int32_t rank, const envelope& message) {
  if (message.target() < 0 || message.target() == rank)
    self->send(ends_.workers[at(rank)], message);
  if (rank == 0)
    return; // the leader has sent the message itself
  if (message.target() < 0 && ends_.relays[at(rank)])
    self->send(ends_.relays[at(rank)], message);
  hand_down(self, rank, message);
}

void network::count(const envelope& message) {
  const auto asked = decode_requests(message);
  if (!asked)
    return;
  counted_.ids += asked->ids.size();
  counted_.full += asked->full.size();
  counted_.buckets += asked->buckets.size();
}

void network::count_plans(const envelope& message) {
  if (const auto planned = decode_schedule(message, options_.members)) {
    counted_.planned += planned->buckets.size();
    counted_.dissolved += planned->dissolved.size();
  }
}

} // namespace farandole::testing
