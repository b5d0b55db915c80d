// Processes complete rows: the tensor fails, has no result because no member contributes, or is ready, alone or with
// its group. A tensor that is ready for the first time gets an id if possible. A tensor that was requested by its id
// gets a cell on the fast path if possible. The builder itself stores only the groups that are not complete.
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
  /// The row of an id is complete: all members have requested exactly the tensor it stands for, or have joined.
  void complete_known(cached_tensor& tensor, request_table& rows, id_registry& ids, negotiation_step& step);
  /// A row without an id is complete. It stores the full requests.
  void complete_written(request_table::row_id row, request_table& rows, id_registry& ids,
                        negotiation_step& step);
  /// A row is withdrawn: the other tensors of its groups no longer wait for its tensor.
  void withdrawn(request_table::row_id row, const request_table& rows, id_registry& ids,
                 negotiation_step& step);

private:
  void fail(request_table::row_id row, error reason, request_table& rows, id_registry& ids,
            negotiation_step& step);
  /// Ends a row whose tensor does not move.
  void drop(request_table::row_id row, request_table& rows, id_registry& ids, negotiation_step& step);
  void hand_on(ready_tensor&& tensor, std::uint32_t group_size, id_registry& ids, negotiation_step& step);
  void leave_groups(const std::vector<group_claim>& claims, id_registry& ids, negotiation_step& step);

  group_gate groups_;
};

} // namespace farandole
