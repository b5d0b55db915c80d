// A key-value space over MPI's point-to-point messages: in a fence, each rank sends its text to rank 0, and rank 0 sends
// its own to the others. So a large job needs few messages, and rank 0 knows every text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "actors/pmi/key_value_space.hpp"
#include "collectives/transport/mpi/mpi_messenger.hpp"
#include "collectives/transport/mpi/mpi_path.hpp"

namespace farandole {

class mpi_key_values final : public key_value_space {
public:
  /// `timeout_setting` is named in the error when a deadline passes.
  mpi_key_values(const mpi_job& job, std::string timeout_setting);

  std::int32_t rank() const override { return messages_.rank(); }
  std::int32_t size() const override { return messages_.members(); }
  error put(const std::string& key, const std::string& value, time_point deadline) override;
  error fence(time_point deadline) override;
  expected<std::string> get(std::int32_t rank, const std::string& key, time_point deadline) override;

private:
  mpi_messenger messages_;
  std::string timeout_setting_;
  std::uint64_t fences_ = 0;
  std::pair<std::string, std::string>
      own_; ///< key and value of the last put; empty: none since the last fence
  std::map<std::pair<std::int32_t, std::string>, std::string> values_; ///< by rank and key
};

} // namespace farandole
