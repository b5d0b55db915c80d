// While members wait in init() for others, the user should learn who is missing: a rank that was never
// started looks like a slow one. This class decides when the rendezvous tells the members that wait, and when
// one of them logs it. No clock: `now` goes in, and the time of the next call comes out.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "messages/wire/membership.hpp"

namespace farandole {

class missing_reports {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// The first report comes after `first_report`; the interval to the next one is twice as long each time:
  /// after 5, 15, 35, 75, … seconds.
  static constexpr std::chrono::seconds first_report{5};
  /// Members hear of changes at most so often, so that their own deadline's error is up to date. Jobs that
  /// come together sooner cost no message.
  static constexpr std::chrono::seconds update_interval{1};

  struct step {
    bool update = false; ///< tell those that wait who is missing
    bool report = false; ///< one of them tells the user
    std::chrono::seconds waited{};
    std::optional<time_point> call_next; ///< call due() then
  };

  /// Somebody came, went, or is newly expected. `forming`: members wait for others now.
  step changed(bool forming, time_point current_time);
  /// The time asked for by `call_next` has come; an earlier call does nothing.
  step due(time_point current_time);

private:
  /// When due() has something to do next.
  time_point next() const;
  std::optional<time_point> call_at_next(time_point current_time);

  bool forming_ = false;
  bool news_ = false; ///< since members were told last
  time_point begin_{};
  time_point told_at_{};
  time_point next_report_{};
  std::chrono::seconds interval_{};
  std::optional<time_point> called_; ///< the earliest call of due() that was asked for and has not come
};

/// "2 of 4 ranks have called init(); missing: rank 1 on node1, rank 3". In an elastic job, where ranks are
/// not known before members have come, slots are named.
std::string text_of(const awaited& missing, bool elastic);

} // namespace farandole
