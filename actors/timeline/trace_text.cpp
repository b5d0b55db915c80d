#include "actors/timeline/trace_text.hpp"

#include <charconv>
#include <utility>

#include "messages/values/json_text.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

template <class Number>
void append(std::string& text, Number value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  text.append(digits, end);
}

} // namespace

void trace_text::open(std::string_view beginning) {
  if (!text_.empty())
    text_ += ",\n";
  text_ += beginning;
}

void trace_text::field(std::string_view name, std::uint64_t value) {
  text_ += ", \"";
  text_ += name;
  text_ += "\": ";
  append(text_, value);
}

// The names of phases are plain text.
void trace_text::name(std::string_view value) {
  text_ += ", \"name\": \"";
  text_ += value;
  text_ += '"';
}

void trace_text::sort_index(std::uint64_t process) {
  open(R"({"name": "process_sort_index", "ph": "M")");
  field("pid", process);
  text_ += R"(, "args": {"sort_index": )";
  append(text_, process);
  text_ += "}}";
}

void trace_text::head(std::int64_t start_us_since_1970) {
  open(R"({"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": )");
  append(text_, start_us_since_1970);
  text_ += "}}";
  sort_index(0);
}

void trace_text::process(std::uint64_t number, std::string_view name) {
  open(R"({"name": "process_name", "ph": "M")");
  field("pid", number);
  text_ += R"(, "args": {"name": )";
  text_ += json_text(printable(name)); // it may hold any bytes
  text_ += "}}";
  sort_index(number);
}

void trace_text::begin(std::string_view phase, std::uint64_t time_us, std::uint64_t process) {
  open(R"({"ph": "B")");
  name(phase);
  field("ts", time_us);
  field("pid", process);
  text_ += '}';
}

void trace_text::end(std::uint64_t time_us, std::uint64_t process) {
  open(R"({"ph": "E")");
  field("ts", time_us);
  field("pid", process);
  text_ += '}';
}

void trace_text::tick(std::uint64_t rank, std::uint64_t time_us, std::uint64_t process) {
  open(R"({"ph": "X", "name": ")");
  append(text_, rank);
  text_ += '"';
  field("ts", time_us);
  field("pid", process);
  field("dur", 0);
  text_ += '}';
}

void trace_text::cycle(std::uint64_t time_us) {
  open(R"({"ph": "i")");
  name("CYCLE_START");
  field("ts", time_us);
  text_ += R"(, "s": "g"})";
}

void trace_text::dropped(std::uint64_t count, std::uint64_t time_us) {
  open(R"({"ph": "i")");
  name("DROPPED_EVENTS");
  field("ts", time_us);
  text_ += R"(, "s": "g", "args": {"count": )";
  append(text_, count);
  text_ += "}}";
}

std::string trace_text::take() {
  return std::exchange(text_, {});
}

} // namespace farandole
