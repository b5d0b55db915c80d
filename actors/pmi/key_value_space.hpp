// Texts that the processes of a job exchange before they know each other, by means of the launcher that started them:
// each process puts texts under keys, all meet in a fence, and afterwards they get what the others put.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "messages/values/error.hpp"

namespace farandole {

/// All functions block until the deadline at most, so they must not be called on the loop. Values are short (1000
/// bytes at most), printable and without spaces. After an error the space cannot be used again: a request that was not
/// answered cannot be taken back.
class key_value_space {
public:
  using time_point = std::chrono::steady_clock::time_point;

  key_value_space() = default;
  key_value_space(const key_value_space&) = delete;
  key_value_space& operator=(const key_value_space&) = delete;
  virtual ~key_value_space() = default;

  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;
  /// Each key is used once per process, and at most one before each fence.
  virtual error put(const std::string& key, const std::string& value, time_point deadline) = 0;
  /// Returns when all processes of the job have called it, or at once where get() waits for the value.
  virtual error fence(time_point deadline) = 0;
  /// What `rank` put before the last fence; an error if it put nothing. Rank 0 may ask for the value of each rank, the
  /// others for that of rank 0.
  virtual expected<std::string> get(std::int32_t rank, const std::string& key, time_point deadline) = 0;
};

} // namespace farandole
