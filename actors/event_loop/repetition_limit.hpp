// Limits repeated log lines, which would hide other lines. Of lines of one kind the first three are logged. Further
// ones are counted, and one line per minute states the count. Two lines are of one kind if the same statement logged
// them and their texts differ only in digits (addresses, ports, ranks, durations).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farandole {

class repetition_limit {
public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::size_t first_lines = 3;
  static constexpr std::chrono::seconds interval{60};
  /// Maximum number of kinds that are remembered. The kind that was seen longest ago is removed first.
  static constexpr std::size_t kind_limit = 256;

  /// The statement in the program that logs a line.
  struct call_site {
    std::string_view file; ///< must outlive the object
    std::uint32_t line = 0;

    friend auto operator<=>(const call_site&, const call_site&) = default;
  };

  /// Returns whether this line is to be logged. If not, it is counted. A kind without lines for an interval and
  /// without a pending count starts over.
  bool admit(const call_site& site, std::string_view text, time_point current_time);

  /// States the number of lines that were not logged.
  struct summary {
    call_site site;
    std::size_t count = 0;
    std::string text; ///< names the count as well
  };
  /// Returns the summaries whose interval is over. Each count is returned once.
  std::vector<summary> due(time_point current_time);
  /// Returns the summaries of all pending counts. Used when the logger ends.
  std::vector<summary> rest();

private:
  using kind = std::pair<call_site, std::string>; ///< the string is the text with each number replaced by '#'

  struct history {
    std::size_t logged = 0;    ///< lines logged since the kind last had no lines for an interval
    std::size_t counted = 0;   ///< lines that are neither logged nor in a summary yet
    time_point counted_from{}; ///< time of the first counted line
    time_point last_seen{};    ///< time of the last line, logged or counted
    std::string last_text;     ///< text of the last counted line
  };

  static summary summarize(const kind& which, history& lines);
  std::vector<summary> take(time_point counted_before);
  void make_room();

  std::map<kind, history> kinds_;
};

} // namespace farandole
