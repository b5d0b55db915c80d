// The part of the set client that sends small tensors inline, inside the messages of the negotiation.
#include <algorithm>
#include <string>

#include "actors/interfaces/generation.hpp"
#include "actors/process_set/set_client.hpp"

namespace farandole {

// Attaches the tensor to the request if it is small enough for the leader to reduce it.
void set_client_state::add_value(const operation_state& operation, requests& batch,
                                 std::size_t& inline_bytes) const {
  if (operation.group != 0 ||
      !setup_.inline_tensors.admit(operation.signature, operation.bytes, inline_bytes))
    return;
  batch.values.push_back({operation.id, {operation.input, operation.input + operation.bytes}});
  inline_bytes += operation.bytes;
}

// Copies the results that the leader reduced itself to their outputs.
void set_client_state::apply_results(const schedule& plan) {
  for (const auto& result : plan.results) {
    auto operation = operations_.claim(result.id, {});
    if (!operation || operation->bytes != result.bytes.size()) {
      const auto own = operation ? "has " + std::to_string(operation->bytes) : "is not pending here";
      const auto problem = "the schedule has a result of " + std::to_string(result.bytes.size()) +
                           " bytes for id " + std::to_string(result.id) + ", which " + own;
      if (operation)
        operation->settle({error_kind::unknown, problem});
      self->send(setup_.member, generation_broken{problem});
      return;
    }
    std::copy(result.bytes.begin(), result.bytes.end(), operation->output);
    operation->settle({});
  }
}

} // namespace farandole
