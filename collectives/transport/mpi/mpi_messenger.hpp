// The messages of one process set over MPI. Every message has its own memory, which is filled when the
// message is sent and emptied by the wait for it. MPI never accesses the caller's memory, so an abandoned
// wait leaves no request that could write to it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/mpi/mpi_engine.hpp"
#include "collectives/transport/p2p/peer_messenger.hpp"

namespace farandole {

struct mpi_set {
  mpi_engine* engine = nullptr; ///< must outlive all sets
  mpi_group job;
  std::uint32_t number = 0; ///< number of the set in its generation
  std::vector<std::int32_t>
      places;            ///< ranks of the set's members in the job's communicator, by rank within the set
  std::int32_t rank = 0; ///< within the set
  futex_wait patience;
};

class mpi_messenger : public peer_messenger {
public:
  explicit mpi_messenger(const mpi_set& set);
  ~mpi_messenger() override;
  mpi_messenger(const mpi_messenger&) = delete;
  mpi_messenger& operator=(const mpi_messenger&) = delete;

  /// Empty, because the job's communicator knows the members.
  std::string address() const override { return {}; }
  /// Exchanges a message with every member, which proves that each has entered the same set.
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;

  std::int32_t rank() const override { return set_.rank; }
  std::int32_t members() const override { return static_cast<std::int32_t>(set_.places.size()); }
  void begin(std::uint64_t sequence, std::chrono::nanoseconds timeout) override {
    sequence_ = sequence;
    timeout_ = timeout;
  }
  /// Nothing to do: the engine's thread sends.
  error flush(const deadline_and_abort& /*until*/) override { return {}; }
  void give_up(const error& /*why*/) override { close(); }

  void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
            message_ticket& ticket) override;
  void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
               message_ticket& ticket) override;
  void look() override;
  error wait(const message_ticket& ticket, const deadline_and_abort& deadline) override;

private:
  /// Ends all sending and receiving.
  void close();

  struct entry {
    mpi_message_ptr message;
    std::byte* target; ///< destination of a receive
    message_ticket* ticket;
  };

  mpi_message_ptr prepare(std::int32_t peer, message_phase phase, std::size_t bytes);
  void start(mpi_message_ptr message, std::byte* target, message_ticket& ticket);
  void collect();
  std::int32_t tag(message_phase phase) const;

  const mpi_set set_;
  std::shared_ptr<mpi_mailbox> mailbox_ = std::make_shared<mpi_mailbox>();
  std::vector<entry> under_way_;
  std::vector<mpi_message_ptr> idle_; ///< finished messages, kept to reuse their memory
  std::uint64_t sequence_ = 0;
  std::chrono::nanoseconds timeout_{0}; ///< how long the work may be without progress
  error failure_;
};

} // namespace farandole
