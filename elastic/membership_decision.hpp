// The messages that a rendezvous has to send after one event, as plain values: `membership` fills them in, and
// the rendezvous sends them.
#pragma once

#include <cstdint>
#include <vector>

#include "elastic/slot_table.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/rendezvous_recovery.hpp"

namespace farandole {

/// The messages, each with its recipient.
struct membership_decision {
  struct refusal {
    link_id to;
    refused reason;
  };
  struct admission {
    link_id to;
    std::int32_t rank = 0;
    bool joined_late = false;
  };
  struct loss_notice {
    link_id to;
    farandole::lost lost;
  };
  struct change_notice {
    link_id to;
    farandole::changed changed;
  };
  struct resumption {
    link_id to;
    resumed event;
  };
  std::vector<refusal> refusals;
  std::vector<admission> admissions;
  farandole::roster roster; ///< sent to all admitted processes
  std::vector<loss_notice> loss_notices;
  std::vector<change_notice> change_notices;
  std::vector<resumption> resumptions;
  /// A slot's part in the job ends because another slot was lost.
  struct consequence {
    std::int32_t slot = 0;
    std::int32_t culprit = 0;

    friend bool operator==(const consequence&, const consequence&) = default;
  };
  std::vector<consequence> consequences;
  std::uint64_t superseded_by = 0; ///< nonzero: members obey another rendezvous, of this epoch; step down
  link_id superseded_from = 0;     ///< the link that reported it
};

} // namespace farandole
