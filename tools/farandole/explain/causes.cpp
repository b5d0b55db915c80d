#include "tools/farandole/explain/causes.hpp"

#include <algorithm>
#include <utility>

#include "tools/farandole/explain/rank_text.hpp"
#include "tools/farandole/explain/record_text.hpp"

namespace farandole {

namespace {

using sentences = std::vector<std::string>;

void append(sentences& text, const sentences& more) {
  text.insert(text.end(), more.begin(), more.end());
}

const rank_state* find(const explanation& job, std::int32_t rank) {
  const auto found = std::ranges::find(job.ranks, rank, &rank_state::rank);
  return found == job.ranks.end() ? nullptr : &*found;
}

/// Whether a rank waits for the ranks that have not called the tensor. One that is dead or held waits for none.
bool has_waiting_rank(const explanation& job, const pending_tensor& tensor) {
  return std::ranges::any_of(tensor.called, [&](std::int32_t rank) {
    const auto* state = find(job, rank);
    return state && state->work != rank_work::gone && !is_held(state->state);
  });
}

/// Whether a cause names the rank as one that others wait for.
bool is_awaited(const explanation& job, std::int32_t rank) {
  return job.conflicts.empty() && std::ranges::any_of(job.pending, [&](const pending_tensor& tensor) {
           return has_waiting_rank(job, tensor) &&
                  std::ranges::find(tensor.missing, rank) != tensor.missing.end();
         });
}

/// Whether ranks wait for a process that cannot go on.
bool has_held_process(const explanation& job) {
  return (!job.came_together() || !job.pending.empty()) &&
         std::ranges::any_of(job.ranks, is_held, &rank_state::state);
}

std::string sentence_about(const rank_state& state, const explanation& job) {
  return process_text(state) + " " + activity_text(state, job) + ".";
}

// ---- causes that hold for the whole job -------------------------------------------------------------------------

sentences ended_processes(const explanation& job) {
  sentences causes;
  for (const auto& state : job.ranks)
    if (state.work == rank_work::gone || (state.work == rank_work::not_started && !state.ending.empty()))
      causes.push_back(sentence_about(state, job));
  return causes;
}

/// Those that others wait for are named with the tensors that they have not called.
sentences held_processes(const explanation& job) {
  sentences causes;
  if (!has_held_process(job))
    return causes;
  for (const auto& state : job.ranks)
    if (is_held(state.state) && !is_awaited(job, state.rank))
      causes.push_back(sentence_about(state, job));
  return causes;
}

/// The processes that the others of a job wait for at its start. Those that are held or have ended have causes of
/// their own.
sentences processes_before_init(const explanation& job) {
  std::vector<std::int32_t> slots;
  for (const auto& state : job.ranks)
    if (state.work == rank_work::not_started && state.ending.empty() && !is_held(state.state))
      slots.push_back(state.slot);
  if (job.came_together() || slots.empty())
    return {};
  const bool one = slots.size() == 1;
  return {(one ? "the process of " : "the processes of ") + numbers_text("slot", slots) +
          in_tense(job, " had", one ? " has" : " have") + " not called init()."};
}

sentences orders_that_differ(const explanation& job) {
  sentences causes;
  for (const auto& conflict : job.conflicts)
    causes.push_back("rank " + std::to_string(conflict.rank) + " " + in_tense(job, "waited", "waits") +
                     " for " + name_text(conflict.tensor) + ", rank " + std::to_string(conflict.other) +
                     " for " + name_text(conflict.other_tensor) + ": they call in different orders.");
  return causes;
}

sentences calls_after_a_departure(const explanation& job) {
  sentences causes;
  if (job.left.empty())
    return causes;
  for (const auto& late : job.late)
    causes.push_back(ranks_text(late.ranks) + " called " + name_text(late.tensor) + " after " +
                     ranks_text(job.left) + " had left the job.");
  return causes;
}

/// How the requests of two ranks differ, as far as the records tell.
std::string difference_text(const pending_tensor& row) {
  if (row.differs.empty())
    return "the ranks made different requests under the name " + name_text(row.tensor) +
           "; the error on each rank says how they differ.";
  const auto first = "rank " + std::to_string(row.called.front()) + " called ";
  const auto other = ", rank " + std::to_string(row.differs.front());
  if (row.operation != row.other_operation)
    return first + operation_text(row.operation) + " under the name " + name_text(row.tensor) + other + " " +
           operation_text(row.other_operation) + ".";
  return first + name_text(row.tensor) + " with " + std::to_string(row.bytes) + " B" + other + " with " +
         std::to_string(row.other_bytes) + " B.";
}

sentences requests_that_failed(const explanation& job) {
  sentences causes;
  for (const auto& tensor : job.mismatched)
    causes.push_back(difference_text(tensor));
  return causes;
}

// ---- causes for which one tensor is pending ---------------------------------------------------------------------

sentences requests_that_differ(const pending_tensor& tensor) {
  if (tensor.differs.empty())
    return {};
  return {difference_text(tensor)};
}

sentences ranks_that_have_not_called(const explanation& job, const pending_tensor& tensor) {
  sentences causes;
  if (!job.conflicts.empty() || !has_waiting_rank(job, tensor))
    return causes;
  for (const auto rank : tensor.missing)
    if (const auto* state = find(job, rank); state && state->work != rank_work::gone)
      causes.push_back(ranks_text(tensor.called) +
                       in_tense(job, " waited for", tensor.called.size() == 1 ? " waits for" : " wait for") +
                       " rank " + std::to_string(rank) + ", which " + in_tense(job, "had", "has") +
                       " not called " + name_text(tensor.tensor) +
                       (state->pending && state->tensor == tensor.tensor ? " again" : "") + ": it " +
                       activity_text(*state, job) + ".");
  return causes;
}

sentences ranks_without_a_record(const explanation& job, const pending_tensor& tensor) {
  if (tensor.unknown.empty() || !tensor.missing.empty())
    return {};
  return {"all ranks with a record " + in_tense(job, "had", "have") + " called " + name_text(tensor.tensor) +
          ", so " + ranks_text(tensor.unknown) +
          in_tense(job, " had not called it, was gone, or was slow to move it.",
                   " has not called it, is gone, or is slow to move it.")};
}

/// Whether a rank waits for the tensor or moves tensors. The result of a call for which no caller waits may be complete
/// without an event that says so.
bool is_waited_for(const explanation& job, const tensor_key& tensor) {
  return std::ranges::any_of(job.ranks, [&](const rank_state& state) {
    return state.work == rank_work::on_path || (state.work == rank_work::waiting && state.tensor == tensor);
  });
}

sentences transfer_in_progress(const explanation& job, const pending_tensor& tensor) {
  if (!tensor.unknown.empty() || !tensor.missing.empty() || !tensor.differs.empty() ||
      has_held_process(job) || !is_waited_for(job, tensor.tensor))
    return {};
  return {"all ranks " + in_tense(job, "had", "have") + " called " + name_text(tensor.tensor) + "; it " +
          in_tense(job, "was being moved when its record ends.", "is being moved.")};
}

} // namespace

std::vector<std::string> causes_of(const explanation& job) {
  sentences found;
  append(found, ended_processes(job));
  append(found, held_processes(job));
  append(found, processes_before_init(job));
  append(found, orders_that_differ(job));
  append(found, calls_after_a_departure(job));
  append(found, requests_that_failed(job));
  for (const auto& tensor : job.pending) {
    append(found, requests_that_differ(tensor));
    append(found, ranks_that_have_not_called(job, tensor));
    append(found, ranks_without_a_record(job, tensor));
    append(found, transfer_in_progress(job, tensor));
  }
  sentences causes;
  for (auto& cause : found)
    if (std::ranges::find(causes, cause) == causes.end())
      causes.push_back(std::move(cause));
  return causes;
}

} // namespace farandole
