// The posted receives of the goodbyes of all other members. Gloo's thread writes a goodbye while other
// threads may read it. The last 8 bytes of a goodbye are one word, which stays zero until the goodbye is
// complete. A receive fails when its connection breaks, so the receives also tell which connections are
// closed.
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
  /// Starts to receive goodbyes, into memory of this object. The mesh must be closed before this object is
  /// destroyed.
  void listen(gloo_mesh& mesh, std::int32_t rank, std::int32_t members, departure_protocol& departing);
  bool listening() const { return !receives_.empty(); }

  /// Whether a member has sent a goodbye that names a failure. Thread-safe.
  bool failure_announced() const;
  /// Whether the connection to the peer is closed and no goodbye has been received from it. For one thread at
  /// a time.
  bool broken(std::int32_t peer) const;

  /// Reports the received goodbyes to the departure protocol. Those that name a culprit come first, because a
  /// member that left in order is blamed only if no other reason is known.
  void report(departure_protocol& departing) const;
  /// Reports the connections that are closed without a goodbye to the departure protocol.
  void report_broken(departure_protocol& departing) const;

private:
  struct receive {
    std::unique_ptr<gloo_message> message; ///< null for this member itself
    mutable std::array<std::uint64_t, goodbye::size / 8> words{};

    std::uint64_t last_word() const;
    bool arrived() const;
    bool in_order() const;
  };

  std::vector<receive> receives_; ///< by rank; must not be moved while messages are in progress
};

} // namespace farandole
