#include "collectives/negotiation/departure_report.hpp"

#include <algorithm>
#include <cassert>

#include "messages/values/printable.hpp"

namespace farandole {

namespace {

constexpr std::size_t most_names = 5;

std::string list_of(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_names); ++i)
    text += (i == 0 ? "" : ", ") + printable_name(names[i]);
  if (names.size() > most_names)
    text += " and " + std::to_string(names.size() - most_names) + " more";
  return text;
}

std::string operations(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " operation" : " operations");
}

std::string remedy_for(const departure_report& report) {
  if (report.manner.kind == departure_kind::uncaught_exception)
    return "Its output has the traceback.";
  if (report.manner.kind == departure_kind::exited)
    return "Its output may say why.";
  if (report.manner.submitted < report.submitted)
    return "If ranks have different numbers of batches, call join() on each rank after its last batch.";
  return "All ranks must complete the same operations before one of them ends its script or calls "
         "shutdown().";
}

} // namespace

error departure_error(departure_report report) {
  const auto pending = report.pending.empty() ? "" : "; pending here: " + list_of(std::move(report.pending));
  if (report.own)
    return {error_kind::shut_down,
            pending.empty() ? std::string(own_departure)
                            : std::string(left_by_itself) + pending +
                                  ". Wait for all operations before you call shutdown() or end the script"};
  auto text = report.member + " " + report.manner.text() + " after " + operations(report.manner.submitted) +
              " (this rank: " + operations(report.submitted) + ")" + pending + ". " + remedy_for(report);
  error reason{report.manner.failed() ? error_kind::disconnected : error_kind::shut_down, std::move(text)};
  reason.consequence = true;
  return reason;
}

} // namespace farandole
