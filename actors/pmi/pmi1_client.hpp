// A client of PMI-1, which MPICH's and Intel MPI's mpirun and `srun --mpi=pmi2` serve on an inherited socket, PMI_FD.
// Each request is one line, and so is its reply; see pmi_line.hpp. An MPI library in this process may use the same
// socket before and after this client. The client therefore never reads beyond the reply that it waits for, and does
// not change the descriptor's flags.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "actors/pmi/pmi_line.hpp"
#include "actors/pmi/process_manager.hpp"

namespace farandole {

class pmi1_client final : public process_manager {
public:
  /// `socket` stays open and belongs to the process. Rank and size are those of the launcher's variables: the
  /// protocol does not repeat them.
  static expected<std::unique_ptr<process_manager>> connect(int socket, std::int32_t rank, std::int32_t size,
                                                            time_point deadline);

  std::int32_t rank() const override { return rank_; }
  std::int32_t size() const override { return size_; }
  error put(const std::string& key, const std::string& value, time_point deadline) override;
  error fence(time_point deadline) override;
  expected<std::string> get(std::int32_t rank, const std::string& key, time_point deadline) override;
  void finish(time_point deadline) override;

private:
  pmi1_client(int socket, std::int32_t rank, std::int32_t size) : socket_(socket), rank_(rank), size_(size) {}
  error begin(time_point deadline);
  expected<pmi_line> ask(const std::string& request, std::string_view reply_command, time_point deadline);
  error send_request(std::string_view request, time_point deadline);
  expected<std::string> receive_line(time_point deadline);
  error wait_for(short events, time_point deadline);
  error failed(error problem);
  bool is_same_socket() const;

  int socket_;
  std::int32_t rank_, size_;
  dev_t device_ =
      0; ///< with inode_, the identity of the socket: its number may be used again once MPI has closed it
  ino_t inode_ = 0;
  std::string space_; ///< the name of the key-value space of this job
  std::size_t most_value_bytes_ = 0;
  error failure_; ///< the first error, after which requests and replies may no longer correspond
};

} // namespace farandole
