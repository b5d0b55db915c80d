#include "tools/farandole/trace/json_events.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "messages/values/json_text.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

using std::chrono::nanoseconds;

/// Perfetto takes thread 0 for the idle thread of Linux, and a thread with the number of its process for the main thread.
constexpr std::uint32_t first_thread = 1'000;

std::string microseconds(nanoseconds time) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(time.count() / 1000),
                static_cast<long long>(time.count() % 1000));
  return text.data();
}

} // namespace

std::string field(const char* name, std::uint64_t value) {
  return "\"" + std::string(name) + "\":" + std::to_string(value);
}

void json_events::name_process(std::size_t process, const std::string& name) {
  open('M', process);
  text_ += ",\"name\":\"process_name\",\"args\":{\"name\":" + json_text(printable(name)) + "}}";
  open('M', process);
  text_ += ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":" + std::to_string(process) + "}}";
}

void json_events::name_thread(std::size_t process, std::uint32_t thread, const std::string& name) {
  open('M', process, thread);
  text_ += ",\"name\":\"thread_name\",\"args\":{\"name\":" + json_text(printable(name)) + "}}";
}

void json_events::slice(const trace_position& begin, nanoseconds end, const std::string& name,
                        const std::string& arguments) {
  open('X', begin.rank, begin.thread, begin.time);
  text_ += ",\"dur\":" + microseconds(std::max(end - begin.time, nanoseconds{0})) +
           ",\"name\":" + json_text(printable_name(name));
  close(arguments);
}

void json_events::instant(const trace_position& at, const std::string& name, const std::string& arguments) {
  open('i', at.rank, at.thread, at.time);
  text_ += ",\"s\":\"t\",\"name\":" + json_text(printable_name(name));
  close(arguments);
}

void json_events::counter(std::size_t process, nanoseconds time, const char* name, double value) {
  std::array<char, 64> number{};
  std::snprintf(number.data(), number.size(), "%.6g", value);
  open('C', process, 0, time);
  text_ += std::string(",\"name\":\"") + name + "\",\"args\":{\"value\":" + number.data() + "}}";
}

void json_events::arrow(const trace_position& from, const trace_position& to, const char* name) {
  const auto id = ",\"cat\":\"arrow\",\"id\":" + std::to_string(next_id()) + ",\"name\":\"" + name + "\"";
  open('s', from.rank, from.thread, from.time);
  text_ += id + "}";
  open('f', to.rank, to.thread, to.time);
  text_ += id + ",\"bp\":\"e\"}";
}

void json_events::copy(const profiler_event& original, const trace_position& at, nanoseconds end,
                       std::uint64_t id) {
  open(original.phase, at.rank, at.thread, at.time);
  text_ += ",\"name\":" + json_text(printable_name(original.name));
  if (!original.category.empty())
    text_ += ",\"cat\":" + json_text(printable_name(original.category));
  if (original.phase == 'X')
    text_ += ",\"dur\":" + microseconds(std::max(end - at.time, nanoseconds{0}));
  else if (original.phase == 'i')
    text_ += ",\"s\":\"t\"";
  if (!original.id.empty())
    text_ += "," + field("id", id);
  if (original.phase == 'f')
    text_ += ",\"bp\":\"e\"";
  close(original.arguments);
}

std::string json_events::take() {
  return std::exchange(text_, {});
}

void json_events::open(char phase, std::size_t process, std::uint32_t thread,
                       std::optional<nanoseconds> time) {
  text_ += (is_first_ ? "{\"ph\":\"" : ",\n{\"ph\":\"") + std::string(1, phase) +
           "\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(first_thread + thread);
  is_first_ = false;
  if (time)
    text_ += ",\"ts\":" + microseconds(std::max(*time - start_, nanoseconds{0}));
}

void json_events::close(const std::string& arguments) {
  text_ += arguments.empty() ? "}" : ",\"args\":{" + arguments + "}}";
}

} // namespace farandole
