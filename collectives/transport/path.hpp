// A path moves one bundle between the members of a set: spans in, spans out, an abort token, a deadline, an
// error if it could not. It runs on the set's lane thread and may block there. It may touch the caller's
// buffers from the call of run() to its return and never afterwards, whatever happened: that is the rule on
// which all the others stand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/dtype.hpp"
#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// Raised once, by any thread, to make a lane give up; never lowered (a new generation has a new token). Its
/// word can be waited on together with a counter (futex_waitv), so a raise is seen at once by a path that
/// sleeps.
class abort_token {
public:
  /// Wakes every waiter. Thread-safe; idempotent.
  void raise();
  bool raised() const { return word_.load(std::memory_order_acquire) != 0; }
  /// 0 until raised, 1 after.
  const std::atomic<std::uint32_t>& word() const { return word_; }

private:
  std::atomic<std::uint32_t> word_{0};
};

/// Where a tensor lives, and when it is ready. On a GPU, `ready` is an event recorded on the producer's
/// stream, which the path's own stream waits for; on the CPU both are empty.
struct place {
  std::int32_t device = -1; ///< -1: host memory; else the GPU's index
  void* ready = nullptr;    ///< a cudaEvent_t, owned by the caller until run() returns
};

/// One tensor of a bundle on this member. A joined member brings no tensor: `input` is null and the neutral
/// element of the reduction stands in; `output` is then null as well. `input` may equal `output` (in place);
/// otherwise they do not overlap.
struct part {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t input_bytes = 0; ///< allreduce, broadcast: also the size of `output`
  farandole::place place;
};

/// One bundle, ready to move. Every member of the set runs the same works in the same order; `parts`
/// correspond.
struct work {
  std::uint64_t sequence = 0; ///< in (generation, set), from 0
  farandole::operation operation = farandole::operation::allreduce;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t root = -1; ///< broadcast: rank within the set
  std::vector<part> parts;
  /// allgather: bytes that each member brings to each part, `gathered[part * members + rank]`; `output` of a
  /// part holds their concatenation in rank order.
  std::vector<std::size_t> gathered;
  /// alltoall, reducescatter: bytes of each part's input that go to each member, in rank order and without
  /// gaps, `sent[part * members + rank]`. Whole elements; any may be 0. Input and output do not overlap.
  /// reducescatter: the same numbers on every member; `output` of a part holds this member's segment,
  /// reduced over all members.
  std::vector<std::size_t> sent;
  /// alltoall: bytes that each member sends to this one, `received[part * members + rank]`; `output` of a
  /// part holds their concatenation in rank order.
  std::vector<std::size_t> received;
  /// alltoall: the greatest number in any member's `sent`; the same on every member.
  std::size_t longest = 0;
};

/// When and why to stop early.
struct deadline_and_abort {
  const abort_token& abort;
  std::chrono::steady_clock::time_point deadline;
  std::string deadline_setting; ///< cited in the error when it passes: "operation timeout (…) = 30 s"
};

/// How a run ended. On a GPU `done` is an event that the consumer's stream must wait for; on the CPU it is
/// null and the data is there.
struct outcome {
  farandole::error error; ///< kind none: done. `disconnected`: aborted. `timed_out`: the deadline passed
  void* done = nullptr;
};

/// Owned by its lane; used from the lane's thread only. One object serves one (generation, set) and is never
/// reused in another.
class path {
public:
  virtual ~path() = default;
  virtual std::string_view name() const = 0;
  /// What the path's connect() needs of this member: bytes, at most path_address_limit_bytes. Empty where it
  /// needs nothing.
  virtual std::string address() { return {}; }
  /// What address() said on every member that the path connects, by rank among them; `rank` is this member's.
  /// Called once, by all of them. Blocks until this member is connected; run() comes after.
  virtual error connect([[maybe_unused]] std::span<const std::string> addresses,
                        [[maybe_unused]] std::int32_t rank,
                        [[maybe_unused]] const deadline_and_abort& deadline) {
    return {};
  }
  /// What an operator should know of how members were connected, or could not be; mostly empty.
  virtual std::string remark() const { return {}; }
  /// Whether run() takes this bundle, of an operation that the path moves; the same on every member. Asked
  /// once connected.
  virtual bool moves([[maybe_unused]] const work& bundle) const { return true; }
  /// Blocks. After any error the path is unusable: the generation or the set must be restarted.
  virtual outcome run(const work& bundle, const deadline_and_abort& deadline) = 0;
};

} // namespace farandole
