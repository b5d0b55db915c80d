#include "actors/launch/record_memory.hpp"

#include <cstdint>
#include <string>
#include <variant>

#include "messages/record/event_region.hpp"
#include "messages/settings/setting_reading.hpp"
#include "messages/settings/settings.hpp"

namespace farandole {

namespace {

/// The value that the process will read. An impossible one is reported by the process.
std::int64_t ring_events_in(const std::vector<std::string>& environment) {
  const auto& row = row_of(setting::recorder_events);
  const auto text = variable_in(environment, row.environment);
  const auto result = read_setting(row, text.empty() ? row.built_in : text, 1);
  return result.kind == reading_kind::good ? std::get<std::int64_t>(result.content)
                                           : settings::built_in().integer(setting::recorder_events);
}

} // namespace

descriptor add_record_memory(process_spec& process) {
  const auto name = std::string(row_of(setting::recorder_descriptor).environment) + "=";
  // This process may itself be a worker of another job.
  std::erase_if(process.environment, [&](const std::string& entry) { return entry.starts_with(name); });
  const auto ring_events = ring_events_in(process.environment);
  if (ring_events <= 0)
    return {};
  auto memory = event_region::create(static_cast<std::size_t>(ring_events));
  if (!memory)
    return {};
  process.environment.push_back(name + std::to_string(memory->get()));
  process.inherited.push_back(memory->get());
  return std::move(*memory);
}

} // namespace farandole
