// The operations that the set client of one member has announced to the leader, or is about to: by name until the
// leader assigns an id, by id from then on. Used on the event loop's thread only.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "actors/submission/operation_state.hpp"

namespace farandole {

class announced_operations {
public:
  bool empty() const { return by_id_.empty() && by_name_.empty(); }

  /// Adds an operation by its id, or by its name while that is 0.
  void add(operation_state_ptr operation);
  /// Adds an operation by its name although it has an id, because the leader has asked for the full request.
  void add_by_name(operation_state_ptr operation);

  /// Moves the operation of this name to this id. Returns the operation that is known by the id; null if there is
  /// none.
  const operation_state* assign(std::uint32_t id, const std::string& name);

  /// These remove the operation from the table; null if there is none.
  operation_state_ptr take(std::uint32_t id);
  operation_state_ptr take(const std::string& name);
  /// By name or id, whichever it is held under.
  operation_state_ptr take_under_any_key(const std::string& name);
  operation_state_ptr take_join();

  /// Removes the operation that a schedule names, by its id or, while that is 0, by its name, and claims it:
  /// from here on only its runner may settle it. Null if there is none, or if the member has failed it because another
  /// of its actors has failed.
  operation_state_ptr claim(std::uint32_t id, const std::string& name);

  /// Fails all operations with `reason` and empties the table.
  void settle_all(const error& reason);

private:
  std::unordered_map<std::uint32_t, operation_state_ptr> by_id_;
  std::unordered_map<std::string, operation_state_ptr> by_name_;
};

} // namespace farandole
