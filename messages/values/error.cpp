#include "messages/values/error.hpp"

namespace farandole {

std::string_view to_string(error_kind kind) {
  constexpr std::string_view names[error_kind_count] = {
      "none",       "precondition",  "invalid argument", "unknown",   "aborted",  "disconnected",
      "overloaded", "unimplemented", "timed out",        "dismissed", "mismatch", "shut down"};
  return names[static_cast<std::size_t>(kind)];
}

} // namespace farandole
