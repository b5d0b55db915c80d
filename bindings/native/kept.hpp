// Calls that were handed in and not yet asked for, by the number that the caller got. An operation lies here
// as it is, without a Python object around it, until somebody wants to hold it. The GIL guards it all.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "bindings/native/job.hpp"

namespace farandole::native {

class kept_calls {
public:
  kept_calls() = default;
  kept_calls(const kept_calls&) = delete;
  kept_calls& operator=(const kept_calls&) = delete;

  /// Keeps an operation under its number.
  void add(operation_handle started);
  /// Keeps anything that has `settled()`, `wait()`, `finish()` and `number`; gives the number.
  nanobind::object add_call(nanobind::object call);

  /// Of an operation that has ended well: forgets it and gives the array that was given as output. Otherwise,
  /// and for numbers that are not kept, NotImplemented: the long way, by get().
  nanobind::object output_of_settled(nanobind::handle number);
  /// As an object of its own, which stays kept; None for numbers that are not kept.
  nanobind::object get(nanobind::handle number);
  void forget(nanobind::handle number);
  void clear();

private:
  struct call {
    std::optional<operation_handle> operation;
    nanobind::object object; ///< where there is no operation
  };
  using table = std::unordered_map<std::uint32_t, call>;

  table::iterator find(nanobind::handle number);
  call& place(std::uint32_t number);
  void drop(table::iterator location);

  table calls_;
  std::vector<table::node_type> spare_; ///< memory of calls that went, for those that come
};

} // namespace farandole::native
