#include "tools/farandole/trace/chrome_trace.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <istream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/values/json_text.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t depth_limit = 256;
constexpr std::size_t argument_bytes = 16'384; ///< longer arguments of an event are left out
constexpr std::size_t name_bytes = 4'096;      ///< longer names are cut
/// In 2065. The sum of a base, a time and a duration fits into 64 bits.
constexpr std::int64_t microsecond_limit = 3'000'000'000'000'000;
/// September 2001. Earlier releases of PyTorch count from 1970 and write no baseTimeNanoseconds.
constexpr nanoseconds since_1970{1'000'000'000'000'000'000};
constexpr std::string_view known_phases = "XBEiICstfbne";

/// Ends the text where it exceeds a limit.
class limited_text : public std::streambuf {
public:
  limited_text(std::streambuf& source, const chrome_trace_limits& limits)
      : source_(source), limits_(limits) {}

  void value_ends() { value_bytes_ = 0; }
  std::uint64_t bytes() const { return bytes_; }
  bool is_exceeded() const { return exceeded_; }
  bool is_at_end() const { return ended_; }

protected:
  int_type underflow() override {
    exceeded_ = bytes_ >= limits_.text_bytes || value_bytes_ >= limits_.value_bytes;
    if (exceeded_)
      return traits_type::eof();
    const auto count = source_.sgetn(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    if (count <= 0) {
      ended_ = true;
      return traits_type::eof();
    }
    bytes_ += static_cast<std::uint64_t>(count);
    value_bytes_ += static_cast<std::uint64_t>(count);
    setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
    return traits_type::to_int_type(buffer_.front());
  }

private:
  std::streambuf& source_;
  chrome_trace_limits limits_;
  std::array<char, 65'536> buffer_{};
  std::uint64_t bytes_ = 0, value_bytes_ = 0;
  bool exceeded_ = false, ended_ = false;
};

/// A number of microseconds, exact to the nanosecond: a double is not for times since 1970.
std::optional<nanoseconds> microseconds_in(const std::string& number) {
  std::int64_t whole = 0;
  const auto* end = number.data() + number.size();
  auto parsed = std::from_chars(number.data(), end, whole);
  if (parsed.ec != std::errc() || std::abs(whole) > microsecond_limit)
    return std::nullopt;
  if (parsed.ptr == end)
    return nanoseconds(whole * 1000);
  if (*parsed.ptr != '.' || number.find_first_of("eE") != std::string::npos) {
    double value = 0;
    parsed = std::from_chars(number.data(), end, value);
    if (parsed.ec != std::errc() || std::abs(value) > static_cast<double>(microsecond_limit))
      return std::nullopt;
    return nanoseconds(std::llround(value * 1000));
  }
  std::int64_t fraction = 0, unit = 100;
  for (const auto* digit = parsed.ptr + 1; digit != end && unit > 0; ++digit, unit /= 10)
    fraction += (*digit - '0') * unit;
  return nanoseconds(whole * 1000 + (number.front() == '-' ? -fraction : fraction));
}

std::optional<std::int64_t> integer_in(const std::string& number) {
  std::int64_t value = 0;
  const auto* end = number.data() + number.size();
  const auto [rest, problem] = std::from_chars(number.data(), end, value);
  return problem == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

std::string cut(std::string text) {
  if (text.size() > name_bytes) {
    auto end = name_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) // within a character
      --end;
    text.resize(end);
  }
  return text;
}

/// The parts of the text that an array or object can be. `argument`: a value within `arguments`.
enum class section { root, distributed, metadata, events, event, arguments, argument, other };

class trace_handler final : public nlohmann::json_sax<nlohmann::json> {
public:
  trace_handler(limited_text& text, const profiler_visitor& visit) : text_(text), visit_(visit) {}

  profiler_facts facts;
  std::optional<std::int64_t> base;

  bool null() override { return scalar("null", false); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false", false); }
  bool number_integer(number_integer_t value) override { return scalar(std::to_string(value), false); }
  bool number_unsigned(number_unsigned_t value) override { return scalar(std::to_string(value), false); }
  bool number_float(number_float_t /*value*/, const string_t& digits) override {
    return scalar(digits, false);
  }
  bool string(string_t& value) override { return scalar(value, true); }
  bool binary(binary_t& /*value*/) override { return false; } // JSON has none

  bool start_object(std::size_t /*elements*/) override { return open('{'); }
  bool start_array(std::size_t /*elements*/) override { return open('['); }
  bool end_object() override { return close('}'); }
  bool end_array() override { return close(']'); }
  bool key(string_t& value) override {
    text_.value_ends();
    key_ = value;
    if (is_in(section::arguments) || is_in(section::argument))
      capture(json_text(printable(value)) + ":");
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::json::exception& /*problem*/) override {
    if (text_.is_exceeded())
      facts.defect =
          "it is too large; what follows its first " + std::to_string(text_.bytes()) + " bytes is left out";
    else if (text_.is_at_end())
      facts.defect = "it ends in the middle, after " + std::to_string(text_.bytes()) +
                     " bytes: it is not complete, or is still being written";
    else
      facts.defect = "it is no JSON at byte " + std::to_string(position);
    return false;
  }

private:
  bool open(char bracket) {
    text_.value_ends();
    if (sections_.size() == depth_limit) {
      facts.defect = "it is nested deeper than " + std::to_string(depth_limit) + " levels";
      return false;
    }
    sections_.push_back(section_behind(bracket));
    if (is_in(section::event)) {
      event_ = {};
      time_.reset();
      label_.clear();
      has_long_arguments_ = false;
    } else if (is_in(section::argument)) {
      capture(std::string(1, bracket));
    }
    return true;
  }
  bool is_in(section wanted) const { return !sections_.empty() && sections_.back() == wanted; }
  section section_behind(char bracket) const {
    if (sections_.empty())
      return bracket == '{' ? section::root : section::other;
    switch (sections_.back()) {
    case section::root:
      if (bracket == '[')
        return key_ == "traceEvents" ? section::events : section::other;
      return key_ == "distributedInfo" ? section::distributed
             : key_ == "metadata"      ? section::metadata
                                       : section::other;
    case section::events:
      return bracket == '{' ? section::event : section::other;
    case section::event:
      return bracket == '{' && key_ == "args" ? section::arguments : section::other;
    case section::arguments:
    case section::argument:
      return section::argument;
    default:
      return section::other;
    }
  }
  bool close(char bracket) {
    text_.value_ends();
    const auto ended = sections_.back();
    sections_.pop_back();
    if (ended == section::event)
      end_event();
    else if (ended == section::argument && !has_long_arguments_)
      event_.arguments += bracket;
    return true;
  }
  bool scalar(const std::string& value, bool is_text) {
    text_.value_ends();
    switch (sections_.empty() ? section::other : sections_.back()) {
    case section::root:
      if (key_ == "baseTimeNanoseconds")
        base = integer_in(value);
      else if (key_ == "host_name")
        facts.host = cut(value);
      break;
    case section::distributed:
      if (const auto rank = integer_in(value); key_ == "rank" && rank && *rank >= 0 && *rank <= INT32_MAX)
        facts.rank = static_cast<std::int32_t>(*rank);
      break;
    case section::metadata:
      facts.merged = facts.merged || key_ == "dropped_events";
      break;
    case section::event:
      set_field(value);
      break;
    case section::arguments:
      if (key_ == "name")
        label_ = cut(value);
      [[fallthrough]];
    case section::argument:
      capture(is_text ? json_text(printable(value)) : value);
      break;
    default:
      break;
    }
    return true;
  }
  void set_field(const std::string& value) {
    if (key_ == "ph")
      event_.phase = value.size() == 1 ? value.front() : '\0';
    else if (key_ == "ts")
      time_ = microseconds_in(value);
    else if (key_ == "dur")
      event_.duration = std::max(microseconds_in(value).value_or(nanoseconds{0}), nanoseconds{0});
    else if (key_ == "name")
      event_.name = cut(value);
    else if (key_ == "cat")
      event_.category = cut(value);
    else if (key_ == "pid")
      event_.process = cut(value);
    else if (key_ == "tid")
      event_.thread = cut(value);
    else if (key_ == "id")
      event_.id = cut(value);
  }
  /// Appends to the arguments. A comma comes before what follows a complete value.
  void capture(const std::string& text) {
    auto& arguments = event_.arguments;
    has_long_arguments_ = has_long_arguments_ || arguments.size() + text.size() > argument_bytes;
    if (has_long_arguments_)
      return;
    if (!arguments.empty() && std::string_view("{[:").find(arguments.back()) == std::string_view::npos)
      arguments += ',';
    arguments += text;
  }
  void end_event() {
    if (has_long_arguments_)
      event_.arguments.clear();
    if (event_.phase == 'M') {
      if (event_.name == "thread_name") {
        event_.name = std::exchange(label_, {});
        visit_(event_);
      }
      return;
    }
    // Processes without a number are marks of the profiler itself.
    if (!time_ || !integer_in(event_.process) || event_.phase == '\0' ||
        known_phases.find(event_.phase) == std::string_view::npos) {
      ++facts.unusable;
      return;
    }
    event_.time = *time_;
    if (event_.phase == 'I')
      event_.phase = 'i'; // its name before
    add_to_facts(facts, event_);
    visit_(event_);
  }

  limited_text& text_;
  const profiler_visitor& visit_;
  std::vector<section> sections_;
  std::string key_;
  profiler_event event_;
  std::optional<nanoseconds> time_;
  std::string label_; ///< the argument `name` of an event of the phase M
  bool has_long_arguments_ = false;
};

} // namespace

profiler_facts read_chrome_trace(std::streambuf& text, const profiler_visitor& visit,
                                 const chrome_trace_limits& limits) {
  limited_text limited(text, limits);
  std::istream stream(&limited);
  trace_handler handler(limited, visit);
  nlohmann::json::sax_parse(stream, &handler);
  if (handler.base && *handler.base >= 0 && *handler.base / 1000 <= microsecond_limit)
    handler.facts.base = nanoseconds(*handler.base);
  else if (handler.facts.events > 0 && handler.facts.first >= since_1970)
    handler.facts.base = nanoseconds{0};
  return std::move(handler.facts);
}

} // namespace farandole
