// How a member left its job in order. The other members describe it in the errors of their pending operations,
// and the launcher when it reports why the job failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace farandole {

/// The numbers are part of the wire format.
enum class departure_kind : std::uint8_t {
  shutdown_called = 0,    ///< the program called shutdown()
  script_ended = 1,       ///< the program ended without an uncaught exception
  uncaught_exception = 2, ///< an exception ended the program
  exited = 3,             ///< the program ended itself with an exit code other than 0
};
inline constexpr std::size_t departure_kind_count = 4;

/// Longest description of an exception.
inline constexpr std::size_t exception_limit_bytes = 200;

struct departure {
  departure_kind kind = departure_kind::shutdown_called;
  /// "KeyError: 'labels'"; of kind exited, the text that the program gave as its reason, or nothing.
  std::string exception;
  std::uint64_t submitted = 0; ///< number of operations submitted to the global set
  std::int32_t code = 0;       ///< of kind exited

  /// Whether the program ended because of an error.
  bool failed() const { return kind == departure_kind::uncaught_exception || kind == departure_kind::exited; }

  /// "ended with an uncaught exception (KeyError: 'labels')", to follow the name of a member.
  std::string text() const;
  friend bool operator==(const departure&, const departure&) = default;
};

/// The member whose leaving ended a generation in order.
struct departed_member {
  std::int32_t rank = -1; ///< global
  departure manner;

  friend bool operator==(const departed_member&, const departed_member&) = default;
};

/// The first line of a text, truncated at a character boundary to the limit, with '?' for control characters.
std::string printable_line(std::string_view text, std::size_t limit_bytes = exception_limit_bytes);

} // namespace farandole
