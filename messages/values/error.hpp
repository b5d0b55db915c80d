// The errors of operations. The kind tells the caller how to react. The text is for users: it names the rank,
// the tensor and both values, and what to do next. Expected failures are returned, never thrown.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace farandole {

/// The numbers are part of the wire format and of the C interface; they never change.
enum class error_kind : std::uint8_t {
  none = 0,             ///< no error
  precondition = 1,     ///< the runtime is not initialised, or its environment is wrong: tell the user
  invalid_argument = 2, ///< this caller's own argument is wrong: tell the user
  unknown = 3,          ///< a back end failed
  aborted = 4,          ///< the operation was withdrawn (its set was removed, it was cancelled)
  disconnected = 5,  ///< membership changed during the operation: roll back, continue in the next generation
  overloaded = 6,    ///< a queue is full: wait, then retry
  unimplemented = 7, ///< this path cannot do it: try another
  timed_out = 8,     ///< a deadline passed; the text names the setting and its value
  dismissed = 9,     ///< the job continues without this process, by plan: end it in order
  mismatch = 10,     ///< ranks requested different operations under one name: tell the user
  shut_down = 11,    ///< the job was shut down, by this member or by another one: init() starts anew
};
inline constexpr std::size_t error_kind_count = 12;

std::string_view to_string(error_kind kind);

struct error {
  error_kind kind = error_kind::none;
  std::string text;
  std::uint32_t process_set = 0; ///< the set that alone failed, and continues; 0: none
  bool consequence = false;      ///< another member ended: this process is not at fault. Not sent

  explicit operator bool() const { return kind != error_kind::none; }
  friend bool operator==(const error&, const error&) = default;
};

/// A value, or the error because of which there is none.
template <class T>
class expected {
public:
  expected(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  expected(farandole::error problem) : content_(std::in_place_index<1>, std::move(problem)) {
    assert(std::get<1>(content_).kind != error_kind::none);
  }

  explicit operator bool() const { return content_.index() == 0; }
  T& operator*() { return std::get<0>(content_); }
  const T& operator*() const { return std::get<0>(content_); }
  T* operator->() { return &std::get<0>(content_); }
  const T* operator->() const { return &std::get<0>(content_); }
  const farandole::error& error() const { return std::get<1>(content_); }

private:
  std::variant<T, farandole::error> content_;
};

} // namespace farandole
