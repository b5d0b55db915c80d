// The posted receives of the goodbyes of all other members. Gloo's thread writes a goodbye while others may
// look: its last 8 bytes are one word, which is zero until the goodbye has come whole. Each receive breaks
// when its connection does, so they also tell whose connections are closed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/transport/gloo/gloo_mesh.hpp"
#include "collectives/transport/p2p/departure_protocol.hpp"

namespace farandole {

class gloo_goodbyes {
public:
  /// From here on goodbyes are received, in memory of this object's. The mesh is closed before it goes.
  void listen(gloo_mesh& mesh, std::int32_t rank, std::int32_t members, departure_protocol& departing);
  bool listening() const { return !receives_.empty(); }

  /// Whether a member has said that it leaves because of a failure. On any thread.
  bool failure_announced() const;
  /// Whether the connection to the peer is closed, and no goodbye of it has come. On one thread at a time.
  bool broken(std::int32_t peer) const;

  /// Tells the departure protocol which goodbyes have come: first those that name a culprit, for a member
  /// that left in order is blamed only if nothing else is known.
  void report(departure_protocol& departing) const;
  /// Tells the departure protocol which connections are closed without a goodbye.
  void report_broken(departure_protocol& departing) const;

private:
  struct receive {
    std::unique_ptr<gloo_message> message; ///< null: this member's own
    mutable std::array<std::uint64_t, goodbye::size / 8> words{};

    std::uint64_t last_word() const;
    bool arrived() const;
    bool in_order() const;
  };

  std::vector<receive> receives_; ///< by rank; never moved while messages are under way
};

} // namespace farandole
