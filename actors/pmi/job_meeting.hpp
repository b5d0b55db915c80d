// How the processes of a job find each other whose launcher provides no rendezvous (mpirun, srun, torchrun): rank 0 serves
// the rendezvous at all addresses of its host that may lead to it, and publishes them with the job's secret. Each other
// rank uses the first address at which the rendezvous proves the secret. From then on the job is like any other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "actors/pmi/key_value_space.hpp"
#include "actors/rendezvous/served_rendezvous.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Where the members of a job meet.
struct meeting_place {
  std::string ip; ///< the address at which this process reaches the rendezvous
  std::uint16_t port = 0;
  std::string secret;
  bool has_new_secret = false; ///< rank 0 has made the secret; otherwise all processes were given it
  error refusal; ///< set if this process must not join, because only some processes were given a secret
  std::unique_ptr<served_rendezvous> rendezvous; ///< only on rank 0

  /// Fills in the address of the rendezvous.
  void assign_to(settings& values) const;
};

/// Blocks until all processes have called it with the same `number`, or until the deadline. `number` differs from those of
/// earlier meetings in this space. `secret` is empty if this process was given none.
expected<meeting_place> hold_meeting(key_value_space& space, std::int32_t number, const settings& values,
                                     const std::string& secret, key_value_space::time_point deadline);

} // namespace farandole
