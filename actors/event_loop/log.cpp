#include "actors/event_loop/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "actors/event_loop/log_line.hpp"
#include "actors/event_loop/repetition_limit.hpp"

#include "messages/settings/settings.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

constexpr std::array<std::string_view, 7> names = {"trace", "debug", "info", "warning",
                                                   "error", "fatal", "off"};

spdlog::level::level_enum to_spdlog(log_level level) {
  return static_cast<spdlog::level::level_enum>(static_cast<int>(level));
}

/// One letter for each log level. spdlog would write C (critical) for FATAL.
class level_letter final : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg& line, const std::tm&, spdlog::memory_buf_t& target) override {
    target.push_back("TDIWEFO"[std::min<int>(line.level, 6)]);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<level_letter>(); }
};

/// "[3]", or nothing while the rank is unknown.
class rank_number final : public spdlog::custom_flag_formatter {
public:
  explicit rank_number(const std::atomic<std::int32_t>& rank) : rank_(rank) {}
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& target) override {
    if (auto rank = rank_.load(std::memory_order_relaxed); rank >= 0)
      fmt::format_to(std::back_inserter(target), " [{}]", rank);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<rank_number>(rank_);
  }

private:
  const std::atomic<std::int32_t>& rank_;
};

class line_sink final : public spdlog::sinks::base_sink<std::mutex> {
public:
  explicit line_sink(std::function<void(log_level, std::string_view)> target) : target_(std::move(target)) {}

private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    spdlog::memory_buf_t text;
    formatter_->format(line, text);
    target_(static_cast<log_level>(line.level), {text.data(), text.size()});
  }
  void flush_() override {}

  std::function<void(log_level, std::string_view)> target_;
};

void to_standard_streams(log_level level, std::string_view line) {
  auto* stream = level < log_level::warning ? stdout : stderr;
  std::string whole{line};
  whole.push_back('\n');
  std::fwrite(whole.data(), 1, whole.size(), stream);
  std::fflush(stream);
}

} // namespace

/// The counts of repeated lines. Several threads log concurrently, so a mutex guards them. It is never held while a
/// line is written.
struct logger::repetitions {
  std::mutex guard;
  repetition_limit limit;
  std::function<repetition_limit::time_point()> clock;
};

std::optional<log_level> log_level_from(std::string_view text) {
  std::string lower{text};
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  auto found = std::find(names.begin(), names.end(), lower);
  if (found == names.end())
    return std::nullopt;
  return static_cast<log_level>(found - names.begin());
}

log_options log_options_of(const settings& values) {
  return {log_level_from(values.text(setting::log_level)).value_or(log_level::warning),
          values.flag(setting::log_hide_time),
          values.text(setting::log_format) == "json" ? log_format::json : log_format::text};
}

logger::logger(const log_options& options) : logger(options, to_standard_streams) {}

logger::logger(const log_options& options, std::function<void(log_level, std::string_view)> target)
    : hide_time_(options.hide_time), format_(options.format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::local, "");
  formatter->add_flag<level_letter>('*').add_flag<rank_number>('&', rank_);
  formatter->set_pattern(format_ == log_format::json ? "%v" // write_line() makes the whole object
                         : hide_time_                ? "[%* %s:%#]%&: %v"
                                                     : "[%Y-%m-%d %H:%M:%S.%f: %* %s:%#]%&: %v");
  auto sink = std::make_shared<line_sink>(std::move(target));
  sink->set_formatter(std::move(formatter));
  sink_ = std::make_unique<spdlog::logger>("farandole", std::move(sink));
  sink_->set_level(to_spdlog(options.level));
  repetitions_ = std::make_unique<repetitions>();
  repetitions_->clock = options.clock;
}

logger::~logger() {
  for (const auto& summary : repetitions_->limit.rest())
    write_line(log_level::warning, summary.text, summary.site.file, summary.site.line, summary.count);
}

bool logger::enabled(log_level level) const {
  return sink_->should_log(to_spdlog(level));
}

void logger::write(log_level level, std::string_view text, std::source_location from) {
  if (!enabled(level))
    return;
  const repetition_limit::call_site site{from.file_name(), from.line()};
  std::vector<repetition_limit::summary> due;
  bool admitted = true;
  {
    std::lock_guard lock(repetitions_->guard);
    const auto current_time = repetitions_->clock();
    due = repetitions_->limit.due(current_time);
    if (level == log_level::warning || level == log_level::error)
      admitted = repetitions_->limit.admit(site, text, current_time);
  }
  for (const auto& summary : due)
    write_line(log_level::warning, summary.text, summary.site.file, summary.site.line, summary.count);
  if (admitted)
    write_line(level, text, site.file, site.line, 0);
}

void logger::write_line(log_level level, std::string_view text, std::string_view file, std::uint32_t line,
                        std::size_t repetition_count) {
  const auto time = std::chrono::system_clock::now();
  std::string shown;
  if (format_ == log_format::json) {
    log_line content{{},
                     names[static_cast<std::size_t>(level)],
                     file,
                     line,
                     rank_.load(std::memory_order_relaxed),
                     text,
                     repetition_count};
    if (!hide_time_)
      content.time = time;
    shown = json_of(content);
  } else {
    shown = printable(text);
  }
  const spdlog::source_loc source{file.data(), static_cast<int>(line), ""};
  // The text is passed as a string view, not as a format string, so braces in it are printed literally.
  sink_->log(time, source, to_spdlog(level), spdlog::string_view_t{shown.data(), shown.size()});
}

void logger::fatal(std::string_view text, std::source_location from) {
  write(log_level::fatal, text, from);
  std::abort();
}

} // namespace farandole
