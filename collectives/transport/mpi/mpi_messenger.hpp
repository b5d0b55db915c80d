// One process set's messages over MPI. Every message has memory of its own, filled when it is sent and
// emptied by the wait for it, so MPI never knows the caller's memory: a wait that is given up leaves nothing
// behind that could touch it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/mpi/mpi_engine.hpp"
#include "collectives/transport/p2p/peer_messenger.hpp"

namespace farandole {

struct mpi_set {
  mpi_engine* engine = nullptr; ///< outlives all sets
  mpi_group job;
  std::uint32_t number = 0;         ///< of the set, in its generation
  std::vector<std::int32_t> places; ///< of the set's members in the job, by rank within the set
  std::int32_t rank = 0;            ///< within the set
  futex_wait patience;
};

class mpi_messenger : public peer_messenger {
public:
  explicit mpi_messenger(const mpi_set& set);
  ~mpi_messenger() override;
  mpi_messenger(const mpi_messenger&) = delete;
  mpi_messenger& operator=(const mpi_messenger&) = delete;

  /// None: the job's communicator knows the members.
  std::string address() const override { return {}; }
  /// Proves that every member is there, and means the same set.
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;

  std::int32_t rank() const override { return set_.rank; }
  std::int32_t members() const override { return static_cast<std::int32_t>(set_.places.size()); }
  void begin(std::uint64_t sequence) override { sequence_ = sequence; }
  /// The engine's thread sends.
  error flush(const deadline_and_abort& /*until*/) override { return {}; }
  void give_up(const error& /*why*/) override { close(); }

  void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
            message_ticket& ticket) override;
  void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
               message_ticket& ticket) override;
  void look() override;
  error wait(const message_ticket& ticket, const deadline_and_abort& deadline) override;

private:
  /// Nothing is sent or received any more.
  void close();

  struct entry {
    mpi_message_ptr message;
    std::byte* target; ///< of a receive
    message_ticket* ticket;
  };

  mpi_message_ptr prepare(std::int32_t peer, message_phase phase, std::size_t bytes);
  void start(mpi_message_ptr message, std::byte* target, message_ticket& ticket);
  void collect();
  std::int32_t tag(message_phase phase) const;

  const mpi_set set_;
  std::shared_ptr<mpi_mailbox> mailbox_ = std::make_shared<mpi_mailbox>();
  std::vector<entry> under_way_;
  std::vector<mpi_message_ptr> idle_; ///< memory to use again
  std::uint64_t sequence_ = 0;
  error failure_;
};

} // namespace farandole
