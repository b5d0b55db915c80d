// The records of a timeline as text: objects of the Chrome trace format, with the fields of Horovod's timeline in its
// order. https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU describes the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace farandole {

/// Collects records, joined by commas. Times are in microseconds since the start of the timeline; a "process" of the
/// format is a tensor.
class trace_text {
public:
  /// The two records at the start of a file.
  void head(std::int64_t start_us_since_1970);
  /// Names a process and sorts it by its number.
  void process(std::uint64_t number, std::string_view name);
  void begin(std::string_view name, std::uint64_t time_us, std::uint64_t process);
  void end(std::uint64_t time_us, std::uint64_t process);
  /// The request of a rank.
  void tick(std::uint64_t rank, std::uint64_t time_us, std::uint64_t process);
  void cycle(std::uint64_t time_us);
  /// Events were lost before they could be written.
  void dropped(std::uint64_t count, std::uint64_t time_us);

  std::size_t size() const { return text_.size(); }
  /// The records since the last call.
  std::string take();

private:
  void open(std::string_view beginning);
  void field(std::string_view name, std::uint64_t value);
  void name(std::string_view value);
  void sort_index(std::uint64_t process);

  std::string text_;
};

} // namespace farandole
