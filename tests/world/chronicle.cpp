#include "tests/world/chronicle.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "collectives/operation.hpp"
#include "tests/world/dice.hpp"

namespace farandole::testing {

namespace {

constexpr std::size_t problems_kept = 10;

} // namespace

void chronicle::problem(std::string text) {
  if (problems_.size() < problems_kept)
    problems_.push_back(std::move(text));
}

void chronicle::ran(std::int32_t rank, const lane_task& task, bool may_stand_in) {
  const auto& bundle = task.bundle;
  auto& next = next_[static_cast<std::size_t>(rank)];
  const auto name = "rank " + std::to_string(rank) + ", bundle " + std::to_string(bundle.sequence) + ": ";
  if (bundle.sequence != next)
    return problem(name + "bundle " + std::to_string(next) + " should have run here");
  ++next;
  if (bundle.sequence == bundles_.size()) {
    record recorded{bundle.operation, bundle.dtype, bundle.reduce_op, {}, bundle.gathered};
    recorded.entries.resize(bundle.parts.size());
    bundles_.push_back(std::move(recorded));
  }
  auto& recorded = bundles_[bundle.sequence];
  if (!same_kind(recorded, bundle))
    return problem(name +
                   "the operation, its type or the number of its tensors differs from that on other ranks");
  compare(recorded, rank, task, may_stand_in);
}

bool chronicle::same_kind(const record& recorded, const work& bundle) {
  return recorded.asked_operation == bundle.operation && recorded.type == bundle.dtype &&
         recorded.op == bundle.reduce_op && recorded.entries.size() == bundle.parts.size() &&
         recorded.gathered == bundle.gathered;
}

void chronicle::compare(record& recorded, std::int32_t rank, const lane_task& task, bool may_stand_in) {
  const auto name =
      "rank " + std::to_string(rank) + ", bundle " + std::to_string(task.bundle.sequence) + ", tensor ";
  for (std::size_t i = 0; i < recorded.entries.size(); ++i) {
    const auto& operation = task.operations[i];
    auto& entry = recorded.entries[i];
    if (!operation) {
      if (!may_stand_in)
        problem(name + std::to_string(i) + " is missing, although this rank has not joined");
    } else if (entry.name.empty()) {
      entry.name = operation->name;
    } else if (entry.name != operation->name) {
      problem(name + operation->name + " is in the position of " + entry.name + " on other ranks");
    }
    const auto bytes = task.bundle.parts[i].input_bytes;
    if (const auto& sent = task.bundle.sent; !sent.empty()) {
      const auto members = static_cast<std::ptrdiff_t>(next_.size());
      const auto own = sent.begin() + static_cast<std::ptrdiff_t>(i) * members;
      if (std::accumulate(own, own + members, std::size_t{0}) != bytes)
        problem(name + entry.name + ": the rows for all members have more or fewer bytes than the input");
    }
    // If the first extent is free, sizes may differ. The bundle of an allgather holds all sizes, which
    // same_kind() has compared.
    if (row_of(task.bundle.operation).first_dim_free())
      continue;
    if (entry.bytes != 0 && entry.bytes != bytes)
      problem(name + entry.name + " has " + std::to_string(bytes) + " bytes here and " +
              std::to_string(entry.bytes) + " bytes on another rank");
    entry.bytes = bytes;
  }
}

void chronicle::ended(std::size_t step, std::size_t tensor, error_kind settings,
                      const std::string& location) {
  ++counts_[static_cast<std::size_t>(settings)];
  if (ends_.size() <= step)
    ends_.resize(step + 1);
  auto& row = ends_[step];
  if (row.size() <= tensor)
    row.resize(tensor + 1, -1);
  const auto kind = static_cast<std::int16_t>(settings);
  if (row[tensor] >= 0 && row[tensor] != kind)
    problem(location + " ended with \"" + std::string(to_string(settings)) +
            "\", but on another rank with \"" + std::string(to_string(static_cast<error_kind>(row[tensor]))) +
            "\"");
  row[tensor] = kind;
}

bool chronicle::complete() const {
  return std::all_of(next_.begin(), next_.end(), [&](auto next) { return next == bundles_.size(); });
}

std::uint64_t chronicle::hash() const {
  std::uint64_t hash = bundles_.size();
  for (const auto& bundle : bundles_)
    for (const auto& entry : bundle.entries) {
      for (unsigned char letter : entry.name)
        hash = dice::mixed(hash * 31 + letter);
      hash = dice::mixed(hash + entry.bytes);
    }
  return hash;
}

} // namespace farandole::testing
