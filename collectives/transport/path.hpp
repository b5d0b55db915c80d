// A path moves one bundle between the members of a process set. It gets spans, an abort token and a deadline,
// and returns an error if it fails. It runs on the set's lane thread and may block there. It may touch the
// caller's buffers only between the call of run() and their release, whether run() succeeds or fails. Host memory
// is released when run() returns, memory of a device when the progress that run() returns has ended. All other
// guarantees about memory depend on this rule.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/values/device.hpp"
#include "messages/values/dtype.hpp"
#include "messages/values/error.hpp"
#include "messages/values/signature.hpp"

namespace farandole {

/// Tells a lane to stop early. Any thread may raise it. It is never reset: a new generation has a new token.
/// A path can sleep on the token's word and on a counter together (futex_waitv), so a sleeping path sees an
/// abort at once.
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

/// The location of a tensor, and when it is ready: a device's own stream waits for that point.
struct tensor_location {
  std::int32_t device = -1; ///< -1: host memory; else the GPU's index
  device_point_ptr ready;   ///< null: it is ready
};

/// One tensor of a bundle on this member. A member that has joined has no tensor: `input` and `output` are
/// null, and the neutral element of the reduction replaces the input. `input` may equal `output` (in place);
/// otherwise they do not overlap.
struct part {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t input_bytes = 0; ///< allreduce, broadcast: also the size of `output`
  tensor_location location = {};
  /// The core has allocated `output`, in host memory, also for an input in the memory of a device.
  bool owns_output = false;
};

/// One bundle, ready to move. Every member of the set runs the same works in the same order, with the same
/// parts in the same order.
struct work {
  std::uint64_t sequence = 0; ///< counts the works of one (generation, set), from 0
  farandole::operation operation = farandole::operation::allreduce;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  memory_kind memory = memory_kind::host; ///< of all parts
  /// Which of its devices each member has its parts on, by rank: 0 the first that it used in this set. Empty: all have
  /// them on their first one.
  std::vector<std::uint8_t> devices;
  std::int32_t root = -1; ///< broadcast: rank within the set
  std::vector<part> parts;
  /// allgather: bytes that each member contributes to each part, `gathered[part * members + rank]`; the
  /// `output` of a part holds their concatenation in rank order.
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

/// The conditions under which a path must stop early.
struct deadline_and_abort {
  const abort_token& abort;
  /// Of connect(), and of a run() that makes no progress. While run() makes progress, it may take longer: see
  /// progress_deadline.hpp.
  std::chrono::steady_clock::time_point deadline;
  std::string deadline_setting; ///< cited in the error when it passes: "operation timeout (…) = 30 s"
};

/// The result of a run.
struct outcome {
  farandole::error error; ///< kind none: done. `disconnected`: aborted. `timed_out`: the deadline passed
  std::chrono::nanoseconds waited{0}; ///< for other members; 0 on paths that do not measure it
  /// What a device still has to do when run() returns, also after an error. The outputs are complete at its
  /// point `done`, and the buffers are in use until its progress has ended. Nothing for parts in host memory.
  device_work device = {};
  bool waits_for_members =
      false; ///< the device's work ends only if the devices of the other members do theirs
};

/// Owned by its lane and used from the lane's thread only. One object serves one (generation, set) and is
/// never reused in another.
class path {
public:
  virtual ~path() = default;
  virtual std::string_view name() const = 0;
  /// The path address of this member, which connect() on the other members needs: at most
  /// path_address_limit_bytes bytes. Empty if the path needs none.
  virtual std::string address() { return {}; }
  /// Connects to the other members. `addresses` are the results of address() on all members that the path
  /// connects, by rank among them; `rank` is this member's. Every member calls it once, before run(). Blocks
  /// until this member is connected.
  virtual error connect([[maybe_unused]] std::span<const std::string> addresses,
                        [[maybe_unused]] std::int32_t rank,
                        [[maybe_unused]] const deadline_and_abort& deadline) {
    return {};
  }
  /// A message for the operator about how members were connected, or why they could not be. Usually empty.
  virtual std::string remark() const { return {}; }
  /// Whether run() accepts this bundle, whose operation the path moves. The answer is the same on every
  /// member. Call it only after connect().
  virtual bool moves([[maybe_unused]] const work& bundle) const { return true; }
  /// Moves the bundle. Blocks. After any error the path is unusable: the generation or the set must be
  /// restarted.
  virtual outcome run(const work& bundle, const deadline_and_abort& deadline) = 0;
};

} // namespace farandole
