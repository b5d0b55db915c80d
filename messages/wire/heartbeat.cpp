#include "messages/wire/heartbeat.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "messages/wire/decoding.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

namespace {

using std::chrono::milliseconds;

/// Greater than any reading of a steady clock. Differences of smaller times cannot overflow.
constexpr std::chrono::nanoseconds clock_limit = std::chrono::hours{24 * 365 * 100};

std::uint32_t shown_milliseconds(std::chrono::nanoseconds lasted) {
  const auto count = std::chrono::duration_cast<milliseconds>(lasted).count();
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(count, 0, std::numeric_limits<std::uint32_t>::max()));
}

} // namespace

envelope encode(const address& from, const heartbeat& value) {
  assert(value.silent.size() <= static_cast<std::size_t>(member_limit));
  return wire_form::write(from, [&](auto body) {
    auto list = body.initHeartbeat().initSilent(wire_form::count_of(value.silent));
    wire_form::write_each(list, value.silent, [](auto to, const silence& silent_member) {
      to.setRank(silent_member.rank);
      to.setMilliseconds(shown_milliseconds(silent_member.lasted));
    });
  });
}

envelope encode(const address& from, const clock_reading& value) {
  return wire_form::write(from, [&](auto body) {
    auto to = body.initClock();
    to.setAsked(value.asked.count());
    to.setIsAnswer(value.is_answer);
    to.setReceived(value.received.count());
    to.setSent(value.sent.count());
  });
}

expected<clock_reading> decode_clock_reading(const envelope& message) {
  return wire_form::decode<clock_reading>(
      message, wire::Envelope::Body::CLOCK, "clock reading",
      [](wire::Envelope::Body::Reader body, clock_reading& value, wire_form::validation& so_far) {
        auto from = body.getClock();
        value = {std::chrono::nanoseconds(from.getAsked()), from.getIsAnswer(),
                 std::chrono::nanoseconds(from.getReceived()), std::chrono::nanoseconds(from.getSent())};
        so_far.require(value.sent >= value.received, "it was answered before it was asked");
        for (const auto time : {value.asked, value.received, value.sent})
          so_far.require(time > -clock_limit && time < clock_limit, "a time is out of range");
      });
}

expected<heartbeat> decode_heartbeat(const envelope& message) {
  return wire_form::decode<heartbeat>(
      message, wire::Envelope::Body::HEARTBEAT, "heartbeat",
      [](wire::Envelope::Body::Reader body, heartbeat& value, wire_form::validation& so_far) {
        auto list = body.getHeartbeat().getSilent();
        if (!so_far.require(list.size() <= static_cast<kj::uint>(member_limit),
                            "too many members are listed"))
          return;
        for (const auto entry : list) {
          const auto rank = entry.getRank();
          so_far.require(rank >= 0 && rank < member_limit, "a rank is out of range");
          so_far.require(value.silent.empty() || value.silent.back().rank < rank,
                         "the ranks are not ascending");
          value.silent.push_back({rank, milliseconds(entry.getMilliseconds())});
        }
      });
}

} // namespace farandole
