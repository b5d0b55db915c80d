// A worker's small tensors that travel inside the negotiation's messages.
#include <algorithm>
#include <string>

#include "actors/interfaces/generation.hpp"
#include "actors/set/worker.hpp"

namespace farandole {

// A small tensor goes along, where the leader is to reduce it.
void worker_state::add_value(const pending& operation, requests& out, std::size_t& inline_bytes) const {
  if (operation.group != 0 ||
      !setup_.inline_tensors.admit(operation.signature, operation.bytes, inline_bytes))
    return;
  out.values.push_back({operation.id, {operation.input, operation.input + operation.bytes}});
  inline_bytes += operation.bytes;
}

// What the leader has reduced itself.
void worker_state::apply_results(const schedule& plan) {
  for (const auto& one : plan.results) {
    auto operation = operations_.claim(one.id, {});
    if (!operation || operation->bytes != one.bytes.size()) {
      const auto own = operation ? "has " + std::to_string(operation->bytes) : "is not pending here";
      const auto problem = "the schedule has a result of " + std::to_string(one.bytes.size()) +
                           " bytes for id " + std::to_string(one.id) + ", which " + own;
      if (operation)
        operation->settle({error_kind::unknown, problem});
      self->send(setup_.member, generation_broken{problem});
      return;
    }
    std::copy(one.bytes.begin(), one.bytes.end(), operation->output);
    operation->settle({});
  }
}

} // namespace farandole
