// The tensors of a process set that one member knows, by name: the last operation of each, and its assignment by the
// leader, which is an id and perhaps a cell of the fast path. The caller holds the submission queue's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "actors/submission/fast_path_slot.hpp"
#include "actors/submission/operation_state.hpp"

namespace farandole {

/// An id that the leader has assigned to a tensor, or has forgotten.
struct assigned_id {
  std::uint32_t id = 0;
  bool forgotten = false;
  std::string name; ///< this and the following fields are set only for an assigned id
  farandole::signature signature;
  std::uint32_t group = 0;
  std::uint32_t group_size = 0;
  std::uint8_t device = 0;
  std::shared_ptr<fast_path_slot> slot; ///< null: the tensor does not use the fast path
};

struct known_tensor {
  operation_state_ptr last; ///< in flight, or settled and not yet swept
  std::uint32_t id = 0;     ///< 0: the leader knows none, as far as this member has heard
  farandole::signature signature;
  std::uint32_t group = 0;
  std::uint32_t group_size = 0;
  std::uint8_t device = 0; ///< which of the devices of this member
  std::shared_ptr<fast_path_slot> slot;
  std::uint64_t next_round = 0;

  /// Whether the id stands for this operation.
  bool matches(const operation_state& operation) const {
    return id != 0 && !operation.absent && group == operation.group && group_size == operation.group_size &&
           device == operation.device_number && signature == operation.signature;
  }
  /// Whether the name is in use. It is free again as soon as its last operation is settled.
  bool in_flight() const { return last && !last->settled(); }
};

class tensor_table {
public:
  std::size_t size() const { return by_name_.size(); }
  auto begin() { return by_name_.begin(); }
  auto end() { return by_name_.end(); }

  /// Null if the name is not known.
  known_tensor* find(std::string_view name);
  known_tensor* find(std::uint32_t id);
  /// Adds the name if it is not known. The reference holds until the name is swept.
  known_tensor& at(std::string_view name);

  void apply(assigned_id change);
  /// Removes the id of the tensor, and its cell of the fast path.
  void forget(known_tensor& entry);
  void forget(std::uint32_t id);

  /// Removes unused names: those without an id whose last operation is settled.
  void sweep();
  /// Sweeps when the table has doubled since the last time.
  void sweep_if_grown();

private:
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  static constexpr std::size_t least_swept = 1024;

  std::unordered_map<std::string, known_tensor, text_hash, std::equal_to<>> by_name_;
  std::unordered_map<std::uint32_t, std::string> names_; ///< by id
  std::size_t sweep_at_ = least_swept;
};

} // namespace farandole
