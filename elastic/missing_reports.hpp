// While members wait in init(), the user should learn which ranks are missing, because a rank that was never
// started looks like a slow one. This class decides when the rendezvous notifies the waiting members, and when
// one of them logs the missing ones. No clock: the caller passes the time and receives that of the next call.
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
  /// The minimum interval between updates to waiting members, which keep the error of their own deadlines up
  /// to date. A job that forms sooner costs no message.
  static constexpr std::chrono::seconds update_interval{1};

  struct step {
    bool update = false; ///< tell the waiting members which ones are missing
    bool report = false; ///< one of them informs the user
    std::chrono::seconds waited{};
    std::optional<time_point> call_next; ///< call due() then
  };

  /// A member arrived, left, or is newly expected. `forming`: members wait for others now.
  step changed(bool forming, time_point current_time);
  /// To be called at the time in `call_next`; an earlier call does nothing.
  step due(time_point current_time);

private:
  /// The next time at which due() has something to do.
  time_point next() const;
  std::optional<time_point> call_at_next(time_point current_time);

  bool forming_ = false;
  bool news_ = false; ///< a change since the last update
  time_point begin_{};
  time_point last_update_{};
  time_point next_report_{};
  std::chrono::seconds interval_{};
  std::optional<time_point> called_; ///< earliest requested call of due() that is still outstanding
};

/// "2 of 4 ranks have called init(); missing: rank 1 on node1, rank 3". In an elastic job the text names slots,
/// because ranks are not known before the members have arrived.
std::string text_of(const awaited& missing, bool elastic);

} // namespace farandole
