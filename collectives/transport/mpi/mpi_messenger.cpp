#include "collectives/transport/mpi/mpi_messenger.hpp"

#include <cassert>
#include <cstring>
#include <utility>

#include "collectives/transport/p2p/stop_reason.hpp"
#include "collectives/transport/progress_deadline.hpp"

namespace farandole {
namespace {

// Layout of a tag, from the lowest bit: phase 3 bits, sequence 8 bits, set number the rest. The sequence
// tells adjacent works apart. MPI itself reports the sender.
constexpr unsigned phase_bits = 3;
constexpr unsigned sequence_bits = 8;

/// Maximum number of finished messages that are kept for their memory.
constexpr std::size_t most_idle = 64;

} // namespace

mpi_messenger::mpi_messenger(const mpi_set& set) : set_(set) {}

mpi_messenger::~mpi_messenger() {
  close();
}

void mpi_messenger::close() {
  mailbox_->closed = true;
  under_way_.clear();
  if (!failure_)
    failure_ = {error_kind::disconnected, "the mpi path is closed"};
}

std::int32_t mpi_messenger::tag(message_phase phase) const {
  const auto limit = static_cast<std::uint32_t>(set_.job.tag_limit) + 1;
  const std::uint32_t sets = limit >> (phase_bits + sequence_bits);
  const auto sequence = static_cast<std::uint32_t>(sequence_ & ((1U << sequence_bits) - 1));
  return static_cast<std::int32_t>(((set_.number % sets) << (phase_bits + sequence_bits)) |
                                   (sequence << phase_bits) | static_cast<std::uint32_t>(phase));
}

error mpi_messenger::connect(std::span<const std::string> /*addresses*/, std::int32_t /*rank*/,
                             const deadline_and_abort& deadline) {
  message_ticket ticket;
  for (std::int32_t peer = 0; peer < members(); ++peer) {
    if (peer == rank())
      continue;
    receive(peer, message_phase::hello, {}, ticket);
    send(peer, message_phase::hello, {}, ticket);
  }
  return wait(ticket, deadline);
}

mpi_message_ptr mpi_messenger::prepare(std::int32_t peer, message_phase phase, std::size_t bytes) {
  mpi_message_ptr message;
  if (idle_.empty()) {
    message = std::make_shared<mpi_message>();
    message->mailbox = mailbox_;
  } else {
    message = std::move(idle_.back());
    idle_.pop_back();
  }
  message->group = set_.job.handle;
  message->peer = set_.places[static_cast<std::size_t>(peer)];
  message->tag = tag(phase);
  message->bytes = bytes;
  if (message->memory.size() < bytes)
    message->memory.resize(bytes);
  message->done.store(false, std::memory_order_relaxed);
  message->code = 0;
  return message;
}

void mpi_messenger::start(mpi_message_ptr message, std::byte* target, message_ticket& ticket) {
  ++ticket.pending;
  under_way_.push_back({message, target, &ticket});
  set_.engine->post(std::move(message));
}

void mpi_messenger::send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
                         message_ticket& ticket) {
  if (failure_)
    return;
  auto message = prepare(peer, phase, bytes.size());
  message->receives = false;
  if (!bytes.empty())
    std::memcpy(message->memory.data(), bytes.data(), bytes.size());
  start(std::move(message), nullptr, ticket);
}

void mpi_messenger::receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
                            message_ticket& ticket) {
  if (failure_)
    return;
  auto message = prepare(peer, phase, bytes.size());
  message->receives = true;
  start(std::move(message), bytes.data(), ticket);
}

void mpi_messenger::look() {
  collect();
}

/// Processes the messages that have ended. This is the only place that writes to the caller's memory.
void mpi_messenger::collect() {
  std::size_t kept = 0;
  for (std::size_t at = 0; at < under_way_.size(); ++at) {
    auto& entry = under_way_[at];
    auto& message = *entry.message;
    if (!message.done.load(std::memory_order_acquire)) {
      if (kept != at)
        under_way_[kept] = std::move(entry);
      ++kept;
      continue;
    }
    if (message.code != 0 && !failure_)
      failure_ = {error_kind::unknown, "MPI could not " + std::string(message.receives ? "receive" : "send") +
                                           " a message: " + set_.engine->describe(message.code)};
    // MPI accepts a shorter message as complete.
    const bool whole = message.code == 0 && message.received == message.bytes;
    if (message.receives && message.code == 0 && !whole && !failure_)
      failure_ = {error_kind::unknown, "rank " + std::to_string(message.peer) + " of MPI's world sent " +
                                           std::to_string(message.received) + " bytes where " +
                                           std::to_string(message.bytes) + " were expected"};
    if (message.receives && whole && message.bytes > 0)
      std::memcpy(entry.target, message.memory.data(), message.bytes);
    assert(entry.ticket->pending > 0);
    --entry.ticket->pending;
    if (idle_.size() < most_idle)
      idle_.push_back(std::move(entry.message));
  }
  under_way_.resize(kept);
}

// MPI does not tell how much of a message it has moved, so progress is the end of a message.
error mpi_messenger::wait(const message_ticket& ticket, const deadline_and_abort& deadline) {
  progress_deadline limit(deadline.deadline, timeout_, std::chrono::steady_clock::now());
  for (;;) {
    auto& counter = mailbox_->done;
    const auto before = counter.value.load(std::memory_order_acquire);
    if (!failure_)
      collect();
    if (!failure_ && deadline.abort.raised())
      failure_ = stop_reason("mpi", deadline, limit.at());
    if (failure_) {
      error reason = failure_;
      close();
      return reason;
    }
    if (ticket.pending == 0)
      return {};
    const auto end = set_.patience.until_reached(counter, before + 1, deadline.abort.word(), limit.at());
    if (end == wait_end::reached)
      limit.progressed(std::chrono::steady_clock::now());
    if (end == wait_end::expired)
      failure_ = stop_reason("mpi", deadline, limit.at());
  }
}

} // namespace farandole
