// A line that is logged again and again hides the lines that matter. Of lines of one kind, the first three
// are logged; those that follow are counted, and one line per minute states the count. Two lines are of one
// kind if the same statement logged them and their texts differ in digits only (addresses, ports, ranks,
// durations).
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
  /// Most kinds that are remembered; the one seen longest ago is forgotten first.
  static constexpr std::size_t kind_limit = 256;

  /// Where a line is logged in the program.
  struct call_site {
    std::string_view file; ///< must outlive the object
    std::uint32_t line = 0;

    friend auto operator<=>(const call_site&, const call_site&) = default;
  };

  /// Whether this line is to be logged. If not, it is counted. A kind that was quiet for an interval, and has
  /// no count left, starts over.
  bool admit(const call_site& site, std::string_view text, time_point current_time);

  /// States the number of lines that were not logged.
  struct summary {
    call_site site;
    std::string text;
  };
  /// Summaries whose minute is over. Each count is returned once.
  std::vector<summary> due(time_point current_time);
  /// All that have a count; for the end.
  std::vector<summary> rest();

private:
  using kind = std::pair<call_site, std::string>; ///< the text with each number replaced by '#'

  struct history {
    std::size_t logged = 0;    ///< since the kind was last quiet for an interval
    std::size_t counted = 0;   ///< neither logged nor in a summary yet
    time_point counted_from{}; ///< the first of those
    time_point last_seen{};    ///< of all lines
    std::string last_text;     ///< of those that were counted
  };

  static summary summarize(const kind& which, history& lines);
  std::vector<summary> take(time_point counted_before);
  void make_room();

  std::map<kind, history> kinds_;
};

} // namespace farandole
