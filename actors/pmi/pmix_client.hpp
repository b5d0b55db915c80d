// A client of PMIx, by which Open MPI's mpirun and `srun --mpi=pmix` serve their processes. The protocol between
// the launcher and its library differs between versions, so the launcher's own library speaks it (pmix_library.hpp).
// The library's functions have no deadline that all launchers keep. Each call is therefore made on a thread of its own,
// which is left behind in the library if the deadline passes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/pmi/pmix_library.hpp"
#include "actors/pmi/process_manager.hpp"

namespace farandole {

class pmix_client final : public process_manager {
public:
  static expected<std::unique_ptr<process_manager>> connect(time_point deadline);

  std::int32_t rank() const override { return static_cast<std::int32_t>(self_.rank); }
  std::int32_t size() const override { return size_; }
  error put(const std::string& key, const std::string& value, time_point deadline) override;
  error fence(time_point deadline) override;
  expected<std::string> get(std::int32_t rank, const std::string& key, time_point deadline) override;
  void finish(time_point deadline) override;

private:
  /// What a call returned. Only one of the values is set, by the calls that have one.
  struct answer {
    pmix_status status = pmix_success;
    pmix_proc self;
    std::uint32_t number = 0;
    std::string text;
  };

  explicit pmix_client(const pmix_library& pmix) : pmix_(pmix) {}
  error begin(time_point deadline);
  /// `call` must own all memory that it gives to the library. `text` names the call in errors.
  expected<answer> within(time_point deadline, const char* text, std::function<answer()> call);

  const pmix_library& pmix_;
  pmix_proc self_;
  std::int32_t size_ = 0;
  error failure_; ///< the first error, after which a thread may still be inside the library
};

} // namespace farandole
