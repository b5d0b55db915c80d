// Moves bundles between members on several hosts with UCX tag messages. Every member sends its contribution
// to a segment straight to the segment's owner, who sums all of them in rank order and sends the result back:
// the bytes on the wire are those of a ring, and the bits of the result are those of every other path. Large
// bundles go in pieces, so the staging memory stays in megabytes whatever their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/paths/adasum.hpp"
#include "collectives/paths/exchange/messenger.hpp"
#include "collectives/paths/path.hpp"
#include "collectives/paths/ucx/ucx_tag.hpp"

namespace farandole {

class message_exchange;

struct ucx_options {
  std::uint64_t generation = 0;
  std::uint32_t set = 0;
  /// Global ranks by rank within the set, for error texts; empty: the same numbers.
  std::vector<std::int32_t> global_ranks;
  /// UCX's names, separated by commas. Shared memory is left out on purpose: members on one host have the
  /// local path, and a killed process leaves UCX's segments behind. UCX_TLS and UCX_NET_DEVICES, where a
  /// person has set them, win over both.
  std::string transports = "self,tcp,rc,dc,ud";
  /// Network devices by name; empty: every one that is up.
  std::string devices;
  /// Longest message of an Adasum.
  std::size_t adasum_message_bytes = std::size_t{1} << 30;
  /// Whether a wait may keep its core busy for some microseconds before it sleeps (waiting.hpp decides).
  bool spins = false;
  /// Called on the lane when a phase of a piece begins; for tests.
  std::function<void(message_phase phase, std::size_t piece)> probe;
};

/// Everything on the lane's thread, open() and the destructor too.
class ucx_path : public path, public adasum_carrier {
public:
  /// A worker that can be reached, and reaches nobody yet. `unimplemented` where UCX is missing.
  static expected<std::unique_ptr<ucx_path>> open(const ucx_options& options);
  /// Leaves in order unless the path is broken: says goodbye, flushes for at most half a second, closes.
  ~ucx_path() override;

  /// How others reach this worker: bytes, zeros among them.
  std::string address() const;
  /// The addresses of all members by rank within the set; every member calls it. Blocks until each has heard
  /// each.
  error connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until);

  std::string_view name() const override { return "ucx"; }
  outcome run(const work& bundle, const limits& until) override;
  /// Of an allreduce, or of an allgather.
  outcome run(const work& bundle, const limits& until, const piece_interludes& around);
  outcome carry(const work& bundle, const limits& until, const adasum_exchange& what) override;

private:
  class state;
  outcome run(const work& bundle, const limits& until, const piece_interludes* around);
  outcome exchanged(const work& bundle, const limits& until, const piece_interludes* around,
                    const std::function<error(message_exchange&)>& what);
  explicit ucx_path(std::unique_ptr<state> opened);
  std::unique_ptr<state> state_;
};

} // namespace farandole
