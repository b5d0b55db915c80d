// What becomes of a row that all members have filled: its tensor fails, or is ready, alone or with its group.
// A tensor that is ready for the first time gets an id if it can, and one that comes again by its id a cell
// on the fast path. The builder itself remembers only the groups that wait for company.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/fusion/group.hpp"
#include "collectives/negotiation/id_registry.hpp"
#include "collectives/negotiation/negotiation_step.hpp"
#include "collectives/negotiation/request_table.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class response_builder {
public:
  /// The row of an id is complete: all members have asked for just what it stands for, or have joined.
  void complete_known(cached_tensor& tensor, request_table& rows, id_registry& ids, negotiation_step& step);
  /// A row without an id is complete, whose requests were written down.
  void complete_written(request_table::row_id row, request_table& rows, id_registry& ids,
                        negotiation_step& step);
  /// A row is withdrawn: others of its groups do not wait for its tensor.
  void withdrawn(request_table::row_id row, const request_table& rows, id_registry& ids,
                 negotiation_step& step);

private:
  void fail(request_table::row_id row, error reason, request_table& rows, id_registry& ids,
            negotiation_step& step);
  void hand_on(ready_tensor&& tensor, std::uint32_t group_size, id_registry& ids, negotiation_step& step);
  void leave_groups(const std::vector<group_claim>& claims, id_registry& ids, negotiation_step& step);

  group_gate groups_;
};

} // namespace farandole
