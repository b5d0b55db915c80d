// Moves bundles with MPI: the collectives of message_exchange.hpp over a set's messages. So results have the
// bits of every other path, every number type and every operation goes, and whatever MPI does, it does in
// memory of its own.
#pragma once

#include <memory>

#include "collectives/paths/exchange/message_exchange.hpp"
#include "collectives/paths/mpi/mpi_messenger.hpp"
#include "collectives/paths/path.hpp"

namespace farandole {

struct path_setup;

/// What a job that speaks MPI has: handed to every set.
struct mpi_job {
  mpi_engine* engine = nullptr;
  mpi_group group;
};

class mpi_path : public path {
public:
  /// `adasum_message_bytes`: longest message of an Adasum.
  mpi_path(const mpi_set& set, std::size_t adasum_message_bytes);

  /// Needs no addresses: the job's communicator knows the members.
  error connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until) override;

  std::string_view name() const override { return "mpi"; }
  outcome run(const work& bundle, const limits& until) override;

private:
  mpi_messenger messages_;
  message_staging staging_{};
  error broken_;
};

/// `unimplemented` where this process has no MPI job.
expected<std::unique_ptr<path>> open_mpi(const path_setup& setup);

} // namespace farandole
