// Moves bundles between members on several hosts by messages. Every member sends its contribution to a
// segment straight to the segment's owner, which sums all of them in rank order and sends the result back: the
// bytes on the wire are those of a ring, and the bits of the result are those of every other path. Large
// bundles go in pieces, so the staging memory stays in megabytes whatever their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "collectives/transport/adasum.hpp"
#include "collectives/transport/p2p/peer_messenger.hpp"
#include "collectives/transport/path.hpp"

namespace farandole {

class message_exchange;
struct message_staging;

struct p2p_options {
  /// Longest message of an Adasum.
  std::size_t adasum_message_bytes = std::size_t{1} << 30;
  /// Called on the lane when a phase of a piece begins; for tests.
  std::function<void(message_phase phase, std::size_t piece)> probe;
};

/// Everything on the lane's thread, the destructor too: that of the messenger says goodbye.
class p2p_path : public path, public adasum_carrier {
public:
  /// `name`, a literal, is the path's; the messenger reaches nobody yet.
  p2p_path(std::string_view name, std::unique_ptr<peer_messenger> messenger, const p2p_options& options);
  ~p2p_path() override;

  std::string address() override;
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;
  std::string remark() const override;

  std::string_view name() const override { return name_; }
  outcome run(const work& bundle, const deadline_and_abort& deadline) override;
  /// Of an allreduce, or of an allgather.
  outcome run(const work& bundle, const deadline_and_abort& deadline, const piece_interludes& around);
  outcome carry(const work& bundle, const deadline_and_abort& deadline,
                const adasum_exchange& value) override;

private:
  outcome run(const work& bundle, const deadline_and_abort& deadline, const piece_interludes* around);
  outcome exchanged(const work& bundle, const deadline_and_abort& deadline, const piece_interludes* around,
                    const std::function<error(message_exchange&)>& value);

  const std::string_view name_;
  const std::unique_ptr<peer_messenger> messenger_;
  const std::unique_ptr<message_staging> staging_;
  const std::function<void(message_phase, std::size_t)> probe_;
  error broken_;
};

} // namespace farandole
