// Feeds arbitrary bytes to the decoder of PMI-1 lines, to that of the entry by which rank 0 names the rendezvous, and to
// that of the entries by which all ranks name the addresses of their hosts. A decoded line must be encoded to the same
// fields, a decoded entry to the same entry; anything else must be an error with a text. The first byte selects the
// decoder.
#include <utility>
#include <vector>

#include "actors/pmi/host_entry.hpp"
#include "actors/pmi/job_entry.hpp"
#include "actors/pmi/pmi_line.hpp"
#include "tests/fuzz/choices.hpp"

using namespace farandole;

namespace {

void check_line(std::string_view text) {
  const auto line = parse_pmi_line(text);
  if (!line)
    return require(!line.error().text.empty() && line.error().text.size() < 1000);
  require(!line->command.empty() && line->fields.size() <= most_pmi_fields &&
          text.size() < most_pmi_line_bytes);
  require(!objection_to_reply(*line, line->command) ||
          !objection_to_reply(*line, line->command).text.empty());
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  for (const auto& [key, value] : line->fields) {
    if (value.empty())
      return; // a request has no empty values
    fields.emplace_back(key, value);
  }
  auto encoded = encode_pmi_line(line->command, fields);
  require(encoded.back() == '\n');
  encoded.pop_back();
  const auto again = parse_pmi_line(encoded);
  require(again && *again == *line);
}

void check_entry(std::string_view text) {
  const auto entry = parse_job_entry(text);
  if (!entry)
    return require(!entry.error().text.empty() && entry.error().text.size() < 1000);
  const auto again = parse_job_entry(encode_job_entry(*entry));
  require(again && *again == *entry);
  require(entry->ips.empty() || (entry->port != 0 && is_pmi_value(encode_job_entry(*entry))));
}

void check_host(std::string_view text) {
  const auto entry = parse_host_entry(text, 0);
  if (!entry)
    return require(!entry.error().text.empty() && entry.error().text.size() < 1000);
  const auto encoded = encode_host_entry(*entry);
  require(encoded.size() < 1000);
  const auto again = parse_host_entry(encoded, 0);
  require(again && again->digest == entry->digest && again->addresses.size() <= entry->addresses.size());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  choices input{{data, size}};
  const auto form = input.below(3);
  const auto text = text_of(input.rest());
  if (form == 0)
    check_line(text);
  else if (form == 1)
    check_entry(text);
  else
    check_host(text);
  return 0;
}
