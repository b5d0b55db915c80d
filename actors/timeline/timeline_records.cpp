#include "actors/timeline/timeline_records.hpp"

#include <algorithm>

#include "collectives/phase_names.hpp"
#include "messages/record/event_kinds.hpp"

namespace farandole {

namespace {

constexpr std::string_view name_not_recorded = "(name not recorded)";

/// All ranks that join end together, so a join has no negotiation.
bool negotiates(operation requested) {
  return requested != operation::join;
}

bool executes(operation requested) {
  return row_of(requested).moves_tensor;
}

} // namespace

timeline_records::timeline_records(name_lookup names, bool mark_cycles, const tick_reading& start)
    : names_(std::move(names)), mark_cycles_(mark_cycles), start_(start) {
  text_.head(std::chrono::duration_cast<std::chrono::microseconds>(start.system).count());
}

// ---- events ---------------------------------------------------------------------------------------

void timeline_records::add(const event& entry, const tick_scale& scale) {
  const auto time_us = time_of(entry.ticks, scale);
  switch (entry.kind) {
  case event_kind::submitted: {
    auto& tensor = find(entry);
    tensor.own = true;
    return;
  }
  case event_kind::published: {
    auto& tensor = find(entry);
    tensor.own = tensor.published = true;
    tensor.published_us = time_us;
    tensor.type = type_of(entry.detail);
    tensor.cells.clear();
    return;
  }
  case event_kind::cell_published:
    if (auto& tensor = find(entry); tensor.published)
      tensor.cells.emplace_back(time_of(entry.first, scale), entry.second);
    return;
  case event_kind::request:
    return requested(find(entry), type_of(entry.detail), entry.first, time_us);
  case event_kind::ready: {
    const auto waited_us = entry.first / 1000;
    return became_ready(find(entry), type_of(entry.detail), time_us > waited_us ? time_us - waited_us : 0,
                        time_us);
  }
  case event_kind::cut:
    return mark_cycle(time_us);
  case event_kind::scheduled:
    return scheduled(find(entry), type_of(entry.detail), entry.first);
  case event_kind::path_begin:
    return path_began(entry, time_us);
  case event_kind::path_end:
    return path_ended(entry, time_us);
  case event_kind::settled:
    return settled(find(entry), entry.detail != 0, entry.first != 0, time_us);
  case event_kind::set_end:
    return end_foreign(time_us, false, entry.set);
  case event_kind::generation_end:
    return end_foreign(time_us, true, 0);
  default:
    return;
  }
}

void timeline_records::lost(std::uint64_t count, std::uint64_t ticks, const tick_scale& scale) {
  const auto time_us = time_of(ticks, scale);
  end_all(time_us);
  text_.dropped(count, time_us);
}

void timeline_records::finish(std::uint64_t ticks, const tick_scale& scale) {
  end_all(time_of(ticks, scale));
}

void timeline_records::requested(tensor& entry, operation_type type, std::uint64_t rank,
                                 std::uint64_t time_us) {
  if (!negotiates(type.operation))
    return;
  if (entry.phase == phase::ready || entry.phase == phase::executing) {
    entry.early.emplace(rank, time_us);
    entry.early_type = type;
    return;
  }
  if (entry.phase == phase::idle) {
    entry.type = type;
    begin_negotiation(entry, time_us);
  }
  tick(entry, rank, time_us);
}

// Requests are not recorded one by one if a relay has sent them, or if they came before the timeline began.
void timeline_records::became_ready(tensor& entry, operation_type type, std::uint64_t first_us,
                                    std::uint64_t time_us) {
  if (!negotiates(type.operation))
    return;
  if (entry.phase == phase::ready || entry.phase == phase::executing) {
    end_execution(entry, time_us);
    end_round(entry);
  }
  if (entry.phase == phase::idle) {
    entry.type = type;
    begin_negotiation(entry, first_us);
  }
  end(entry, time_us);
  entry.ready_us = time_us;
  // Without a part of this rank there is no event that tells how the operation ends.
  entry.phase = entry.own && executes(entry.type.operation) ? phase::ready : phase::idle;
}

void timeline_records::scheduled(tensor& entry, operation_type type, std::uint64_t sequence) {
  if (!executes(type.operation))
    return;
  if (entry.phase == phase::negotiating)
    end(entry, entry.last_us);
  if (entry.phase == phase::executing)
    return;
  entry.type = type;
  entry.phase = phase::ready;
  entry.own = true;
  leave_bundle(entry);
  entry.in_bundle = true;
  entry.sequence = sequence;
  auto& bundle = bundles_[{entry.set, sequence}];
  bundle.tensors.push_back(&entry);
  ++bundle.unsettled;
}

void timeline_records::path_began(const event& entry, std::uint64_t time_us) {
  const auto found = bundles_.find({entry.set, entry.first});
  if (found == bundles_.end())
    return;
  const auto type = type_of(entry.detail);
  const auto activity = activity_name(names_(entry.name), type.operation, type.adasum);
  for (auto* tensor : found->second.tensors) {
    if (!tensor->in_bundle || tensor->sequence != entry.first)
      continue;
    if (tensor->phase == phase::ready)
      begin(*tensor, phase_name(tensor->type.operation, tensor->type.adasum), time_us);
    if (tensor->in_activity)
      end(*tensor, time_us);
    tensor->phase = phase::executing;
    tensor->in_activity = true;
    begin(*tensor, activity, time_us);
  }
}

void timeline_records::path_ended(const event& entry, std::uint64_t time_us) {
  const auto found = bundles_.find({entry.set, entry.first});
  if (found == bundles_.end())
    return;
  for (auto* tensor : found->second.tensors)
    if (tensor->in_bundle && tensor->sequence == entry.first && std::exchange(tensor->in_activity, false))
      end(*tensor, time_us);
}

void timeline_records::settled(tensor& entry, bool failed, bool on_fast_path, std::uint64_t time_us) {
  if (on_fast_path)
    settled_on_fast_path(entry, failed, time_us);
  else if (failed && (entry.phase == phase::negotiating || entry.phase == phase::ready))
    fail_negotiation(entry, time_us);
  else if (entry.phase == phase::ready && !entry.in_bundle)
    settled_inline(entry, time_us);
  else
    end_execution(entry, time_us);
  end_round(entry);
}

// The members have negotiated by publishing their cells.
void timeline_records::settled_on_fast_path(tensor& entry, bool failed, std::uint64_t time_us) {
  end_execution(entry, time_us); // of an earlier operation, whose end was not recorded
  if (!std::exchange(entry.published, false) || !negotiates(entry.type.operation))
    return;
  auto cells = std::exchange(entry.cells, {});
  std::sort(cells.begin(), cells.end());
  const auto first_us = cells.empty() ? entry.published_us : cells.front().first;
  mark_cycle(first_us);
  begin_negotiation(entry, first_us);
  for (const auto& [cell_us, rank] : cells)
    tick(entry, rank, cell_us);
  if (failed)
    return fail_negotiation(entry, time_us);
  const auto complete_us = cells.empty() ? time_us : cells.back().first;
  end(entry, complete_us);
  if (!executes(entry.type.operation))
    return;
  begin(entry, phase_name(entry.type.operation, entry.type.adasum), complete_us);
  begin(entry, activity_name("fast path", entry.type.operation, entry.type.adasum), complete_us);
  end(entry, time_us);
  end(entry, time_us);
}

// The leader has reduced the values that came with the requests, which is a bundle of one tensor.
void timeline_records::settled_inline(tensor& entry, std::uint64_t time_us) {
  mark_cycle(entry.ready_us);
  begin(entry, phase_name(entry.type.operation, entry.type.adasum), entry.ready_us);
  begin(entry, activity_name("inline", entry.type.operation, entry.type.adasum), entry.ready_us);
  end(entry, time_us);
  end(entry, time_us);
}

// Tensors that this rank has not submitted end with their set; all others have an event of their own.
void timeline_records::end_foreign(std::uint64_t time_us, bool all_sets, std::uint16_t set) {
  for (auto& [key, entry] : tensors_) {
    if (entry.own || entry.phase != phase::negotiating || !(all_sets || entry.set == set))
      continue;
    fail_negotiation(entry, time_us);
    entry.early.clear();
    end_round(entry);
  }
}

// ---- the phases of a tensor -----------------------------------------------------------------------

void timeline_records::begin_negotiation(tensor& entry, std::uint64_t time_us) {
  begin(entry, "NEGOTIATE_" + phase_name(entry.type.operation, entry.type.adasum), time_us);
  entry.phase = phase::negotiating;
}

void timeline_records::fail_negotiation(tensor& entry, std::uint64_t time_us) {
  if (entry.phase == phase::negotiating)
    end(entry, time_us);
  begin(entry, "ERROR", time_us);
  end(entry, time_us);
}

void timeline_records::end_execution(tensor& entry, std::uint64_t time_us) {
  if (std::exchange(entry.in_activity, false))
    end(entry, time_us);
  if (entry.phase == phase::negotiating || entry.phase == phase::executing)
    end(entry, time_us);
  entry.phase = phase::idle;
}

void timeline_records::end_round(tensor& entry) {
  leave_bundle(entry);
  entry.phase = phase::idle;
  entry.own = false;
  entry.published = false;
  entry.cells.clear();
  std::vector<std::pair<std::uint64_t, std::uint64_t>> early;
  for (const auto& [rank, time_us] : std::exchange(entry.early, {}))
    early.emplace_back(time_us, rank);
  std::sort(early.begin(), early.end());
  for (const auto& [time_us, rank] : early)
    requested(entry, entry.early_type, rank, time_us);
}

void timeline_records::end_all(std::uint64_t time_us) {
  for (auto& [key, entry] : tensors_) {
    end_execution(entry, time_us);
    entry.early.clear();
    end_round(entry);
  }
}

void timeline_records::leave_bundle(tensor& entry) {
  if (!std::exchange(entry.in_bundle, false))
    return;
  const auto found = bundles_.find({entry.set, entry.sequence});
  if (--found->second.unsettled == 0)
    bundles_.erase(found);
}

// ---- records --------------------------------------------------------------------------------------

timeline_records::operation_type timeline_records::type_of(std::uint8_t detail) {
  const bool adasum = (detail & adasum_detail) != 0;
  const auto number = static_cast<std::uint8_t>(detail & ~adasum_detail);
  if (number >= operation_count)
    return {};
  return {static_cast<operation>(number), adasum};
}

std::uint64_t timeline_records::time_of(std::uint64_t ticks, const tick_scale& scale) const {
  const auto time =
      std::chrono::duration_cast<std::chrono::microseconds>(scale.steady(ticks) - start_.steady);
  return time.count() < 0 ? 0 : static_cast<std::uint64_t>(time.count());
}

// Two threads that record a name for the first time may give it two indices.
timeline_records::tensor& timeline_records::find(const event& entry) {
  auto& known = by_index_[std::uint64_t{entry.set} << 32 | entry.name];
  if (known)
    return *known;
  const auto recorded = names_(entry.name);
  const auto name = std::string(recorded.empty() ? name_not_recorded : recorded);
  auto& tensor = tensors_[{entry.set, name}];
  tensor.set = entry.set;
  tensor.name = name;
  known = &tensor;
  return tensor;
}

std::uint64_t timeline_records::advance(tensor& entry, std::uint64_t time_us) {
  return entry.last_us = std::max(entry.last_us, time_us);
}

void timeline_records::begin(tensor& entry, std::string_view name, std::uint64_t time_us) {
  if (entry.process == 0) {
    entry.process = ++processes_;
    text_.process(entry.process, entry.name);
  }
  text_.begin(name, advance(entry, time_us), entry.process);
}

void timeline_records::end(tensor& entry, std::uint64_t time_us) {
  text_.end(advance(entry, time_us), entry.process);
}

void timeline_records::tick(tensor& entry, std::uint64_t rank, std::uint64_t time_us) {
  text_.tick(rank, advance(entry, time_us), entry.process);
}

void timeline_records::mark_cycle(std::uint64_t time_us) {
  if (mark_cycles_)
    text_.cycle(time_us);
}

} // namespace farandole
