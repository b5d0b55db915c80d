// What the leader must know about a tensor to record events of it: requests and ready tensors name it by its id only.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "actors/submission/recorded_operation.hpp"
#include "collectives/fusion/ready_tensor.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole {

class recorded_tensors {
public:
  struct tensor {
    std::uint32_t name = 0; ///< index in the record
    std::uint8_t operation = 0;
  };

  void add(const assignment& assigned, event_recorder& recorder) {
    by_id_[assigned.id] = {recorder.intern(assigned.name),
                           recorded_operation(assigned.signature.operation, assigned.signature.reduce_op)};
  }
  void forget(std::uint32_t id) { by_id_.erase(id); }

  /// Without a name if the id is not known.
  tensor find(std::uint32_t id) const {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? tensor{} : found->second;
  }
  tensor find(const ready_tensor& ready, event_recorder& recorder) const {
    if (ready.id != 0)
      return find(ready.id);
    return {recorder.intern(ready.name()), recorded_operation(ready.operation, ready.reduce_op)};
  }

private:
  std::unordered_map<std::uint32_t, tensor> by_id_;
};

} // namespace farandole
