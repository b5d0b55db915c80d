#include "messages/wire/departure.hpp"

namespace farandole {

std::string departure::text() const {
  switch (kind) {
  case departure_kind::shutdown_called:
    return "called shutdown()";
  case departure_kind::script_ended:
    return "ended its script";
  case departure_kind::uncaught_exception:
    return "ended with an uncaught exception" + (exception.empty() ? "" : " (" + exception + ")");
  case departure_kind::exited:
    return "exited with code " + std::to_string(code) + (exception.empty() ? "" : " (" + exception + ")");
  }
  return "left the job";
}

std::string printable_line(std::string_view text, std::size_t limit_bytes) {
  std::string line(text.substr(0, text.find_first_of("\r\n")));
  if (line.size() > limit_bytes) {
    auto size = limit_bytes;
    while (size > 0 && (static_cast<unsigned char>(line[size]) & 0xC0U) == 0x80U)
      --size;
    line.resize(size);
  }
  for (auto& letter : line)
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f)
      letter = '?';
  return line;
}

} // namespace farandole
