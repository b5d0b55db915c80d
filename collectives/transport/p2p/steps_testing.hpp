// Counts the steps of an operation and makes one of them fail. The operation must then end with the error of
// that step, for every step. The member's neighbours, cross-host groups and libraries are replaced by fakes
// that take such steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

#include "collectives/transport/p2p/peer_messenger.hpp"

namespace farandole::testing {

struct steps {
  std::size_t failing = SIZE_MAX;
  std::size_t taken = 0;

  error take() {
    if (taken++ != failing)
      return {};
    return {error_kind::unknown, "step " + std::to_string(failing)};
  }
};

/// Each message and each flush is a step. A message is done at once, or the wait for it fails.
class messenger_of_steps final : public peer_messenger {
public:
  messenger_of_steps(steps& counted, std::int32_t rank, std::int32_t members)
      : steps_(counted), rank_(rank), members_(members) {}
  std::string address() const override { return {}; }
  error connect(std::span<const std::string>, std::int32_t, const deadline_and_abort&) override { return {}; }
  std::int32_t rank() const override { return rank_; }
  std::int32_t members() const override { return members_; }
  void begin(std::uint64_t, std::chrono::nanoseconds) override {}
  void send(std::int32_t, message_phase, std::span<const std::byte>, message_ticket& ticket) override {
    move(ticket);
  }
  void receive(std::int32_t, message_phase, std::span<std::byte> to, message_ticket& ticket) override {
    if (!to.empty())
      std::memset(to.data(), 0, to.size());
    move(ticket);
  }
  void look() override {}
  error wait(const message_ticket& ticket, const deadline_and_abort&) override {
    return ticket.pending == 0 ? error{} : failure_;
  }
  error flush(const deadline_and_abort&) override { return steps_.take(); }
  void give_up(const error&) override {}

private:
  void move(message_ticket& ticket) {
    if (auto problem = steps_.take()) {
      failure_ = problem;
      ++ticket.pending;
    }
  }
  steps& steps_;
  const std::int32_t rank_;
  const std::int32_t members_;
  error failure_;
};

} // namespace farandole::testing
