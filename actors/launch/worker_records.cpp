#include "actors/launch/worker_records.hpp"

#include <sys/stat.h>

#include <fstream>
#include <utility>

#include "actors/launch/record_memory.hpp"
#include "messages/record/event_copy.hpp"

namespace farandole {

namespace {

/// The letter of /proc/PID/stat; 0 if it is not known.
char state_of_process(std::int32_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name_end = text.rfind(')'); // the name may contain anything
  return name_end != std::string::npos && name_end + 2 < text.size() ? text[name_end + 2] : '\0';
}

/// The memory behind a descriptor, with rings of any size.
expected<std::shared_ptr<event_region>> mapped(int memory) {
  struct stat status {};
  const auto layout =
      ::fstat(memory, &status) == 0 ? layout_of(static_cast<std::size_t>(status.st_size)) : std::nullopt;
  if (!layout)
    return error{error_kind::invalid_argument, "the memory of an event record has an impossible size"};
  return event_region::map(memory, layout->ring_events);
}

} // namespace

bool held_record::has_content() const {
  return is_recorded_in(memory->get());
}

record_copy held_record::facts() const {
  record_copy facts{tick_clock::of_this_host().read(), ending.slot, ending.manner, ending.told_to_end,
                    process};
  if (process != 0 && ending.manner.empty())
    facts.state = state_of_process(process);
  return facts;
}

error held_record::copy_to(int file) const {
  return copy_event_record(memory->get(), file, facts());
}

void worker_records::give(std::int32_t slot, process_spec& process) {
  auto memory = add_record_memory(process);
  if (!memory)
    return;
  held_record record{std::make_shared<const descriptor>(std::move(memory))};
  record.ending.slot = slot;
  const std::lock_guard lock(mutex_);
  records_[slot] = std::move(record);
}

void worker_records::started(std::int32_t slot, std::int32_t process) {
  const std::lock_guard lock(mutex_);
  if (const auto found = records_.find(slot); found != records_.end())
    found->second.process = process;
}

void worker_records::ended(const worker_ending& ending) {
  const std::lock_guard lock(mutex_);
  if (const auto found = records_.find(ending.slot); found != records_.end())
    found->second.ending = ending;
}

void worker_records::forget_ended() {
  const std::lock_guard lock(mutex_);
  std::erase_if(records_, [](const auto& entry) { return !entry.second.ending.manner.empty(); });
}

std::vector<held_record> worker_records::held() const {
  const std::lock_guard lock(mutex_);
  std::vector<held_record> all;
  for (const auto& [slot, record] : records_)
    all.push_back(record);
  return all;
}

held_record worker_records::present(const held_record& record) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(record.ending.slot);
  return found != records_.end() && found->second.memory == record.memory ? found->second : record;
}

std::vector<trace_source> worker_records::trace_sources() const {
  std::vector<trace_source> sources;
  for (const auto& record : held())
    if (record.has_content())
      sources.push_back({record.memory.get(), [record] { return mapped(record.memory->get()); },
                         [this, record] { return present(record).facts(); }});
  return sources;
}

} // namespace farandole
