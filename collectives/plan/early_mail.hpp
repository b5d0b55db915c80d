// What waits at a gate: messages for something that has not begun here, in the order in which they came,
// within bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "messages/envelope.hpp"
#include "messages/error.hpp"

namespace farandole {

/// What becomes of a message that is offered to a gate.
enum class gate_answer : std::uint8_t { pass, drop, held };

struct gate_bounds {
  std::size_t messages = 4096;
  std::size_t bytes = std::size_t{64} << 20;
};

class early_mail {
public:
  explicit early_mail(const gate_bounds& most) : most_(most) {}

  /// `overloaded` when there would be too much; `what` says what the message is, for the error.
  error hold(const envelope& message, const std::string& what);

  /// Goes through all that waits. `number` says of a message for what it is: what is for `begun` is returned,
  /// in the order in which it came; what is for a number above `last` stays; the rest is dropped.
  template <class Number>
  std::vector<envelope> begin(std::uint64_t begun, std::uint64_t last, Number number) {
    std::vector<envelope> due;
    std::deque<envelope> later;
    for (auto& message : mail_) {
      if (number(message) > last) {
        later.push_back(std::move(message));
        continue;
      }
      bytes_ -= message.bytes().size();
      if (number(message) == begun)
        due.push_back(std::move(message));
    }
    mail_ = std::move(later);
    return due;
  }

  std::size_t size() const { return mail_.size(); }

private:
  gate_bounds most_;
  std::size_t bytes_ = 0;
  std::deque<envelope> mail_;
};

} // namespace farandole
