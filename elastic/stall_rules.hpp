// Stalls: tensors that some ranks have submitted and others have not for too long. These rules decide when the stall
// watch of a process set looks for stalled tensors, and when one of them ends the job.
#pragma once

#include <chrono>
#include <span>
#include <string>

#include "messages/wire/stalls.hpp"

namespace farandole {

class settings;

struct stall_rules {
  std::chrono::nanoseconds warning{0}; ///< tensors that wait longer are reported; 0: none
  std::chrono::nanoseconds shutdown{
      0};                      ///< tensors that wait longer end the job, unless ignores_shutdown(); 0: none
  std::string warning_setting; ///< citation of the setting: "stall warning time (…) = 60 s"
  std::string shutdown_setting;

  static stall_rules of(const settings& values);

  /// The shutdown time has no effect unless it is longer than the warning time.
  bool ignores_shutdown() const { return shutdown.count() > 0 && shutdown <= warning; }
  std::chrono::nanoseconds effective_shutdown() const {
    return shutdown > warning ? shutdown : std::chrono::nanoseconds{0};
  }

  /// The rendezvous is told of tensors that have waited for longer than this. It is half of the warning time, so that
  /// the rendezvous knows all tensors of a deadlock when the first of them is to be reported.
  std::chrono::nanoseconds notice_time() const { return warning / 2; }

  /// Time until the next look for stalled tensors. `longest`: the longest time that one has waited; 0 if none has waited
  /// for longer than notice_time().
  std::chrono::nanoseconds next_look(std::chrono::nanoseconds longest) const;

  /// Why the job must end; empty: it continues. `set`: "", or " of process set 3".
  std::string shutdown_complaint(std::span<const stalled_tensor> stalls, const std::string& set) const;
};

} // namespace farandole
