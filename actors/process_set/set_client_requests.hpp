// How the set client writes its requests: shared by set_client.cpp, which requests operations when they are submitted,
// and set_client_schedule.cpp, which requests them again when a schedule asks for it.
#pragma once

#include "actors/submission/operation_state.hpp"
#include "collectives/relay/bucket_accumulator.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

/// The full request of an operation, which the leader needs as long as it has assigned no id to it.
inline request full_request(const operation_state& operation) {
  return {operation.name,         operation.signature,     operation.group, operation.group_size,
          operation.no_fast_path, operation.device_number, operation.absent};
}

/// Adds ids to the requests of a message.
inline void append(requests& batch, const bucket_accumulator::ids& ids) {
  batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
}

} // namespace farandole
