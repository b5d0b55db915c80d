// Turns the bytes of a fuzzer into decisions, one byte for each, so that a small change of the input changes
// little. Also provides require(), which aborts the process if a condition does not hold, so that the fuzzer
// notices it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

namespace farandole {

inline void require(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (holds)
    return;
  std::fprintf(stderr, "%s:%d: this does not hold\n", file, line);
  std::abort();
}

class choices {
public:
  explicit choices(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }
  /// The next byte; 0 after the end.
  std::uint8_t byte() {
    if (rest_.empty())
      return 0;
    const auto first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }
  /// One of `values`, which are less than 256.
  template <class Value>
  const Value& among(std::span<const Value> values) {
    return values[byte() % values.size()];
  }
  template <class Value, std::size_t Size>
  const Value& among(const Value (&values)[Size]) {
    return among(std::span<const Value>(values));
  }
  std::int32_t below(std::int32_t end) { return byte() % end; }
  /// True in one of `cases` cases.
  bool one_in(std::int32_t cases) { return byte() % cases == cases - 1; }
  /// At most `most` bytes; the input chooses their number and may end earlier.
  std::span<const std::uint8_t> bytes(std::size_t most) {
    const auto size = std::min<std::size_t>(std::size_t{byte()} * 256 + byte(), most);
    const auto taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() const { return std::as_bytes(rest_); }

private:
  std::span<const std::uint8_t> rest_;
};

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace farandole
