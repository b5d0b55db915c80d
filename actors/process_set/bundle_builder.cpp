#include "actors/process_set/bundle_builder.hpp"

#include <cassert>
#include <string>
#include <utility>

#include "actors/submission/request_check.hpp"
#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

work work_of(const bundle& bundle, std::span<const std::int32_t> ranks) {
  work bundle_work;
  bundle_work.sequence = bundle.sequence;
  bundle_work.operation = bundle.operation;
  bundle_work.dtype = bundle.dtype;
  bundle_work.reduce_op = bundle.reduce_op;
  bundle_work.prescale = bundle.prescale;
  bundle_work.postscale = bundle.postscale;
  bundle_work.memory = bundle.memory;
  bundle_work.devices = bundle.devices;
  bundle_work.root = rank_in_set(bundle.root, ranks);
  bundle_work.parts.reserve(bundle.entries.size());
  return bundle_work;
}

std::string called(const bundle_entry& entry) {
  return entry.id ? "id " + std::to_string(entry.id) : printable_name(entry.name);
}

// Why the schedule does not fit this member's tensor: the tensor was not submitted, or was submitted differently.
// Empty if it fits.
std::string complaint(const bundle& bundle, const bundle_entry& entry, const operation_state_ptr& own,
                      bool joined) {
  if (!own)
    return joined && row_of(bundle.operation).takes_zeros ? "" : "which this rank has not submitted";
  if (own->signature.operation != bundle.operation || own->signature.dtype != bundle.dtype)
    return "which this rank has submitted as " + std::string(row_of(own->signature.operation).name) + " of " +
           std::string(to_string(own->signature.dtype));
  if (own->signature.memory != bundle.memory)
    return std::string("which this rank has submitted from ") +
           (own->signature.memory == memory_kind::host ? "host memory" : "GPU memory");
  if (!row_of(bundle.operation).has_rows())
    return {};
  const auto& extents = own->signature.shape;
  if (extents.empty() ||
      (row_of(bundle.operation).rows == row_use::gathered && entry.row_elements != elements_of_row(extents)))
    return "whose rows are others than those of the shape " + to_string(extents) + " submitted here";
  return {};
}

} // namespace

expected<std::unique_ptr<lane_task>>
bundle_builder::build(const bundle& bundle, std::vector<operation_state_ptr> operations, bool joined) const {
  assert(operations.size() == bundle.entries.size());
  const auto broken = [&](const std::string& text) {
    return error{error_kind::unknown, "bundle " + std::to_string(bundle.sequence) + text};
  };
  auto task = std::make_unique<lane_task>();
  task->bundle = work_of(bundle, ranks_);
  task->operations = std::move(operations);
  if (row_of(bundle.operation).rows == row_use::dealt && bundle.entries.size() != 1)
    return broken(" holds " + std::to_string(bundle.entries.size()) + " tensors; an alltoall goes alone");
  for (std::size_t i = 0; i < bundle.entries.size(); ++i) {
    const auto& own = task->operations[i];
    if (own && own->absent && bundle.operation == operation::allgather &&
        (own->signature.operation != bundle.operation || own->signature.dtype != bundle.dtype))
      own->become_gather(bundle.dtype, bundle.entries[i].row_elements);
    if (auto text = complaint(bundle, bundle.entries[i], task->operations[i], joined); !text.empty())
      return broken(" names tensor " + called(bundle.entries[i]) + ", " + text);
    add_part(bundle.entries[i], i, *task);
  }
  return task;
}

void bundle_builder::add_part(const bundle_entry& entry, std::size_t index, lane_task& task) const {
  auto& bundle_work = task.bundle;
  auto& operation = task.operations[index];
  part part;
  part.input_bytes = static_cast<std::size_t>(entry.elements) * size_of(bundle_work.dtype);
  if (operation) {
    part.input = operation->input;
    part.output = operation->output;
    part.input_bytes = operation->bytes;
    part.location = {operation->memory.device, operation->ready};
  }
  switch (row_of(bundle_work.operation).rows) {
  case row_use::gathered: {
    auto row_bytes = static_cast<std::size_t>(entry.row_elements) * size_of(bundle_work.dtype);
    for (auto rows : entry.first_dims)
      bundle_work.gathered.push_back(static_cast<std::size_t>(rows) * row_bytes);
    operation->outcome.first_dims = entry.first_dims;
    part.output = nullptr; // the lane allocates it
    break;
  }
  case row_use::dealt:
    for (auto rows : operation->splits)
      bundle_work.sent.push_back(static_cast<std::size_t>(rows) * bytes_of_row(operation->signature));
    part.output = nullptr; // the lane allocates it once the members have exchanged their row counts
    break;
  case row_use::segmented:
    add_segments(*operation, bundle_work);
    break;
  case row_use::whole:
    break;
  }
  bundle_work.parts.push_back(part);
}

// The remainder of the division goes to the first members, one row each.
void bundle_builder::add_segments(operation_state& operation, work& bundle_work) const {
  const auto rows = static_cast<std::size_t>(operation.signature.shape.at(0));
  const auto row_bytes = bytes_of_row(operation.signature);
  for (std::size_t member = 0; member < members_; ++member) {
    const auto own = rows / members_ + (member < rows % members_ ? 1 : 0);
    bundle_work.sent.push_back(own * row_bytes);
    if (member == rank_)
      operation.outcome.first_dims = {static_cast<std::int64_t>(own)};
  }
}

} // namespace farandole
