// Moves bundles between members on several hosts by messages. Every member sends its contribution to a
// segment directly to the owner of the segment, which reduces all contributions in rank order and sends the
// result back. The number of bytes on the network is that of a ring, and the result has the bits of every
// other path. Bundles are moved in pieces, so the staging memory stays at a few megabytes regardless of their
// size.
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
  /// Maximum length of an Adasum message.
  std::size_t adasum_message_bytes = std::size_t{1} << 30;
  /// Called on the lane's thread when a phase of a piece begins; for tests.
  std::function<void(message_phase phase, std::size_t piece)> probe;
};

/// Must be used and destroyed on the lane's thread: the destructor of the messenger sends goodbyes.
class p2p_path : public path, public adasum_carrier {
public:
  /// `name` is the name of the path, a string literal. The messenger is not connected yet.
  p2p_path(std::string_view name, std::unique_ptr<peer_messenger> messenger, const p2p_options& options);
  ~p2p_path() override;

  std::string address() override;
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;
  std::string remark() const override;

  std::string_view name() const override { return name_; }
  outcome run(const work& bundle, const deadline_and_abort& deadline) override;
  /// Runs an allreduce or an allgather whose pieces the caller has cut.
  outcome run(const work& bundle, const deadline_and_abort& deadline, const piece_callbacks& callbacks);
  outcome carry(const work& bundle, const deadline_and_abort& deadline,
                const adasum_exchange& value) override;

private:
  outcome run(const work& bundle, const deadline_and_abort& deadline, const piece_callbacks* callbacks);
  outcome exchanged(const work& bundle, const deadline_and_abort& deadline, const piece_callbacks* callbacks,
                    const std::function<error(message_exchange&)>& value);

  const std::string_view name_;
  const std::unique_ptr<peer_messenger> messenger_;
  const std::unique_ptr<message_staging> staging_;
  const std::function<void(message_phase, std::size_t)> probe_;
  error broken_;
};

} // namespace farandole
