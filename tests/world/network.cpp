#include "tests/world/network.hpp"

#include <algorithm>

namespace farandole::testing {

namespace {

constexpr std::uint64_t network_stream = 77;

} // namespace

network::network(const job_options& options, chronicle& log)
    : options_(options), log_(log), draw_(options.seed, network_stream),
      lines_(2 * static_cast<std::size_t>(options.members)) {}

void network::connect(envelope_actor negotiator, std::vector<envelope_actor> workers) {
  negotiator_ = std::move(negotiator);
  workers_ = std::move(workers);
}

void network::disconnect() {
  negotiator_ = nullptr;
  workers_.clear();
}

caf::behavior network::behavior(caf::event_based_actor* self) {
  return {
      [=, this](const outbound& message) { accept(self, message); },
      [=, this](tick_atom, std::uint64_t link) { deliver(self, link); },
  };
}

void network::accept(caf::event_based_actor* self, const outbound& message) {
  const auto members = static_cast<std::size_t>(options_.members);
  if (message.message.kind() == wire::Envelope::Body::REQUESTS) {
    put(self, static_cast<std::size_t>(message.message.source()), message.message);
  } else if (message.rank >= 0) {
    put(self, members + static_cast<std::size_t>(message.rank), message.message);
  } else {
    for (std::size_t rank = 0; rank < members; ++rank)
      put(self, members + rank, message.message);
  }
}

void network::put(caf::event_based_actor* self, std::size_t link, const envelope& message) {
  auto& line = lines_[link];
  line.in_flight.push_back(message);
  auto takes = options_.latency_us + draw_.below(options_.jitter_us);
  if (draw_.one_in(options_.delayed))
    takes += draw_.below(options_.delay_us);
  const auto now = self->clock().now();
  line.last = std::max(line.last, now + std::chrono::microseconds(takes));
  self->delayed_send(self, line.last - now, tick_atom::value, static_cast<std::uint64_t>(link));
}

// Whichever tick comes, what was sent first arrives first.
void network::deliver(caf::event_based_actor* self, std::size_t link) {
  auto& line = lines_[link];
  auto arrived = envelope::parse(line.in_flight.front().bytes());
  line.in_flight.pop_front();
  if (!arrived)
    return log_.problem("a message was not understood: " + arrived.error().text);
  ++counted_.messages;
  counted_.bytes += arrived->bytes().size();
  const auto members = static_cast<std::size_t>(options_.members);
  if (link < members) {
    count(*arrived);
    if (negotiator_)
      self->send(negotiator_, std::move(*arrived));
  } else if (!workers_.empty()) {
    self->send(workers_[link - members], std::move(*arrived));
  }
}

void network::count(const envelope& message) {
  const auto asked = decode_requests(message);
  if (!asked)
    return;
  counted_.ids += asked->ids.size();
  counted_.full += asked->full.size();
  counted_.full_at_end += asked->full.size();
}

} // namespace farandole::testing
