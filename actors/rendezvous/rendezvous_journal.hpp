// The start of a rendezvous that may have a journal (elastic/journal.hpp): restores the membership that the rendezvous
// before it has recorded, and records its own epoch for the rendezvous after it.
#pragma once

#include "actors/rendezvous/rendezvous.hpp"
#include "elastic/membership.hpp"
#include "messages/values/error.hpp"

namespace farandole {

/// Restores the membership from the journal, or makes that of a new job. If the rendezvous runs inside the launcher,
/// the processes of the earlier launcher have ended with it, so only the epoch continues.
expected<membership> restore_membership(const rendezvous_options& options);

/// Writes the first journal record, before any process can learn the address: the next rendezvous of this journal
/// must find the epoch of this one.
void record_start(const rendezvous_options& options, const membership& members);

} // namespace farandole
