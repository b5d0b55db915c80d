#include "actors/pmi/pmi_line.hpp"

#include <algorithm>
#include <cassert>

#include "messages/values/printable.hpp"

namespace farandole {
namespace {

error malformed(std::string_view line, const std::string& reason) {
  constexpr std::size_t quoted_bytes = 80;
  return {error_kind::unknown, "the process manager sent the line '" +
                                   printable_name(line.substr(0, quoted_bytes)) + "', " + reason};
}

bool is_visible(unsigned char c) {
  return c > ' ' && c < 127;
}

} // namespace

std::string_view pmi_line::field(std::string_view key) const {
  const auto found = fields.find(key);
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

bool is_pmi_value(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_visible);
}

expected<pmi_line> parse_pmi_line(std::string_view line) {
  if (line.size() >= most_pmi_line_bytes)
    return malformed(line, "which is longer than " + std::to_string(most_pmi_line_bytes) + " bytes");
  pmi_line parsed;
  for (std::size_t begin = line.find_first_not_of(' '); begin < line.size();
       begin = line.find_first_not_of(' ', begin)) {
    const auto end = std::min(line.find(' ', begin), line.size());
    const auto text = line.substr(begin, end - begin);
    begin = end;
    const auto equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos)
      return malformed(line, "which is not a list of fields of the form key=value");
    if (!std::all_of(text.begin(), text.end(), is_visible))
      return malformed(line, "which contains characters that are not printable");
    const std::string key(text.substr(0, equals)), value(text.substr(equals + 1));
    if (parsed.command.empty() != (key == "cmd"))
      return malformed(line, "which does not begin with its only field cmd");
    if (key == "cmd")
      parsed.command = value;
    else if (!parsed.fields.emplace(key, value).second)
      return malformed(line, "which contains the field " + key + " twice");
    if (key == "cmd" && value.empty())
      return malformed(line, "which names no command");
    if (parsed.fields.size() > most_pmi_fields)
      return malformed(line, "which has more than " + std::to_string(most_pmi_fields) + " fields");
  }
  if (parsed.command.empty())
    return malformed(line, "which names no command");
  return parsed;
}

std::string encode_pmi_line(std::string_view command,
                            const std::vector<std::pair<std::string_view, std::string_view>>& fields) {
  std::string line = "cmd=" + std::string(command);
  for (const auto& [key, value] : fields) {
    assert(is_pmi_value(key) && is_pmi_value(value));
    line += " " + std::string(key) + "=" + std::string(value);
  }
  return line + "\n";
}

error objection_to_reply(const pmi_line& reply, std::string_view command) {
  if (reply.command != command)
    return {error_kind::unknown, "the process manager answered '" + printable_name(reply.command) +
                                     "' where '" + std::string(command) + "' was expected"};
  // Intel MPI leaves the code out where nothing can fail.
  const auto code = reply.field("rc");
  if (code.empty() || code == "0")
    return {};
  const auto reason = reply.field("msg");
  return {error_kind::unknown, "the process manager refused a request (" + printable_name(reply.command) +
                                   "): code " + printable_name(code) +
                                   (reason.empty() ? "" : ", " + printable_name(reason))};
}

} // namespace farandole
