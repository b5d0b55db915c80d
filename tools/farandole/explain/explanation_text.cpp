#include "tools/farandole/explain/explanation_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>

#include "collectives/operation.hpp"
#include "messages/record/event_kinds.hpp"
#include "messages/values/printable.hpp"
#include "tools/farandole/explain/record_text.hpp"

namespace farandole {

namespace {

/// The number of rows of each list that are printed.
constexpr std::size_t most_rows = 10;

std::string duration_text(record_time duration) {
  std::array<char, 32> text{};
  const auto length = seconds(std::max(duration, record_time{0}));
  if (length < 1)
    std::snprintf(text.data(), text.size(), "%.0f ms", length * 1e3);
  else
    std::snprintf(text.data(), text.size(), "%.1f s", length);
  return text.data();
}

std::string operation_text(std::uint8_t recorded) {
  const auto number = static_cast<std::uint8_t>(recorded & ~adasum_detail);
  const auto name = number < operation_count ? std::string(row_of(static_cast<operation>(number)).name)
                                             : "operation " + std::to_string(number);
  return (recorded & adasum_detail) != 0 ? name + " with Adasum" : name;
}

std::string process_text(const rank_state& state) {
  const auto name = state.rank >= 0 ? "rank " + std::to_string(state.rank)
                                    : "the process of slot " + std::to_string(state.slot);
  return state.host.empty() ? name : name + " on " + printable_name(state.host);
}

/// What a running process cannot do anything about. Empty if it runs or sleeps.
std::string_view process_state_text(char state) {
  switch (state) {
  case 'T':
    return "is stopped (by SIGSTOP or Ctrl-Z)";
  case 't':
    return "is stopped by a debugger";
  case 'D':
    return "waits for a disk or a device";
  case 'Z':
    return "has ended, and its launcher has not noticed yet";
  default:
    return {};
  }
}

std::string ending_text(const rank_state& state) {
  if (const auto text = process_state_text(state.state); !text.empty())
    return "; its process " + std::string(text);
  if (state.ending.empty())
    return "";
  return state.told_to_end ? "; its launcher ended it" : "; its process " + printable_name(state.ending);
}

/// A verb in the past tense if the job had ended, otherwise in the present.
std::string in_tense(const explanation& job, const char* past, const char* present) {
  return job.running ? present : past;
}

std::string regroup_text(const rank_state& state, const explanation& job) {
  if (!state.regroup)
    return "";
  return "; since " + time_text(state.regroup->since) + " it " +
         (state.regroup->phase == regroup_phase::waiting
              ? in_tense(job, "waited", "has waited") +
                    (job.came_together() ? " for the next generation" : " for the other processes")
              : in_tense(job, "connected", "has been connecting") + " to the members of generation " +
                    std::to_string(state.regroup->generation));
}

const char* settled_text(const rank_state& state) {
  return state.failed ? " failed" : " was complete";
}

/// What the rank was doing, as the rest of a sentence.
std::string work_text(const rank_state& state, const explanation& job) {
  const auto lasted = [&] { return duration_text(job.time - state.since.value_or(job.time)); };
  const auto tensor = state.tensor ? name_text(*state.tensor) : "";
  switch (state.work) {
  case rank_work::waiting:
    return in_tense(job, "waited", "has waited") + " for " + tensor + " for " + lasted();
  case rank_work::on_path:
    return in_tense(job, "moved", "has moved") + " tensors on the path " + printable_name(state.path) +
           " for " + lasted();
  case rank_work::user_code:
    return in_tense(job, "was", "has been") + " in user code for " + lasted() + ", since " +
           (state.pending ? "it called " + tensor + ", which " + in_tense(job, "was", "is") + " not complete"
                          : tensor + settled_text(state));
  case rank_work::no_call:
    return in_tense(job, "had", "has") + " not called any operation";
  case rank_work::joining:
    return in_tense(job, "had called init(), but was", "has called init(), but is") + " no member yet";
  case rank_work::not_started:
    return in_tense(job, "had", "has") + " not called init()";
  case rank_work::gone:
    return printable_name(state.ending) +
           (state.since && state.since->count() > 0 ? "; its record ends at " + time_text(*state.since)
                                                    : "") +
           (state.tensor ? ", after " + std::string(state.pending ? "it had called " : "") + tensor +
                               (state.pending ? "" : settled_text(state))
                         : "");
  case rank_work::no_record:
    return "has no record here: it ran on another host, or kept no record";
  }
  return "";
}

std::string with_ending(const rank_state& state, const explanation& job) {
  const bool tells = state.work == rank_work::gone;
  return work_text(state, job) + regroup_text(state, job) + (tells ? "" : ending_text(state));
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

/// The processes that the others of a job wait for at its start. Those that are held or have ended have causes of their own.
std::vector<std::int32_t> slots_before_init(const explanation& job) {
  std::vector<std::int32_t> slots;
  for (const auto& state : job.ranks)
    if (state.work == rank_work::not_started && state.ending.empty() && !is_held(state.state))
      slots.push_back(state.slot);
  return slots;
}

/// Why the pending tensors could not be completed, each as a sentence.
std::vector<std::string> causes_of(const explanation& job) {
  std::vector<std::string> causes;
  const auto add = [&](const std::string& cause) {
    if (std::ranges::find(causes, cause) == causes.end())
      causes.push_back(cause);
  };
  for (const auto& state : job.ranks)
    if (state.work == rank_work::gone || (state.work == rank_work::not_started && !state.ending.empty()))
      add(process_text(state) + " " + with_ending(state, job) + ".");
  const bool waits = !job.came_together() || !job.pending.empty();
  bool any_held = false;
  for (const auto& state : job.ranks)
    if (waits && is_held(state.state)) {
      any_held = true;
      if (!is_awaited(job, state.rank))
        add(process_text(state) + " " + with_ending(state, job) + ".");
    }
  if (const auto slots = slots_before_init(job); !job.came_together() && !slots.empty())
    add((slots.size() == 1 ? "the process of " : "the processes of ") + numbers_text("slot", slots) +
        in_tense(job, " had", slots.size() == 1 ? " has" : " have") + " not called init().");
  for (const auto& conflict : job.conflicts)
    add("rank " + std::to_string(conflict.rank) + " " + in_tense(job, "waited", "waits") + " for " +
        name_text(conflict.tensor) + ", rank " + std::to_string(conflict.other) + " for " +
        name_text(conflict.other_tensor) + ": they call in different orders.");
  for (const auto& late : job.late)
    if (!job.left.empty())
      add(ranks_text(late.ranks) + " called " + name_text(late.tensor) + " after " + ranks_text(job.left) +
          " had left the job.");
  for (const auto& tensor : job.mismatched)
    add(difference_text(tensor));
  for (const auto& tensor : job.pending) {
    if (!tensor.differs.empty())
      add(difference_text(tensor));
    for (const auto rank : tensor.missing)
      if (const auto* state = find(job, rank);
          state && state->work != rank_work::gone && job.conflicts.empty() && has_waiting_rank(job, tensor))
        add(ranks_text(tensor.called) +
            in_tense(job, " waited for", tensor.called.size() == 1 ? " waits for" : " wait for") + " rank " +
            std::to_string(rank) + ", which " + in_tense(job, "had", "has") + " not called " +
            name_text(tensor.tensor) + (state->pending && state->tensor == tensor.tensor ? " again" : "") +
            ": it " + with_ending(*state, job) + ".");
    if (!tensor.unknown.empty() && tensor.missing.empty())
      add("all ranks with a record " + in_tense(job, "had", "have") + " called " + name_text(tensor.tensor) +
          ", so " + ranks_text(tensor.unknown) +
          in_tense(job, " had not called it, was gone, or was slow to move it.",
                   " has not called it, is gone, or is slow to move it."));
    if (tensor.unknown.empty() && tensor.missing.empty() && tensor.differs.empty() && !any_held)
      add("all ranks " + in_tense(job, "had", "have") + " called " + name_text(tensor.tensor) + "; it " +
          in_tense(job, "was being moved when its record ends.", "is being moved."));
  }
  return causes;
}

/// What the rank was doing, then its stack. Lines after the first one have this indentation.
std::string rank_text(const rank_state& state, const explanation& job, const char* indentation) {
  auto text = process_text(state) + " " + with_ending(state, job);
  for (const auto& line : state.stack)
    text += "\n" + (indentation + printable(line));
  return text;
}

std::string members_text(const explanation& job) {
  if (job.came_together())
    return std::to_string(job.size) + (job.size == 1 ? " rank" : " ranks") + ", generation " +
           std::to_string(job.generation);
  const bool one = job.ranks.size() == 1;
  return std::to_string(job.ranks.size()) + (one ? " process" : " processes") + " that " +
         in_tense(job, "had not come together",
                  one ? "has not come together yet" : "have not come together yet");
}

template <class Row, class Text>
void add_list(std::string& page, const std::string& heading, const std::vector<Row>& rows, Text text) {
  if (rows.empty())
    return;
  page += "\n" + heading + "\n";
  for (std::size_t i = 0; i < std::min(rows.size(), most_rows); ++i)
    page += "  " + text(rows[i]) + "\n";
  if (rows.size() > most_rows)
    page += "  … and " + std::to_string(rows.size() - most_rows) + " more (--json lists all)\n";
}

std::string pending_text(const pending_tensor& row, const explanation& job) {
  auto text = name_text(row.tensor) + " (" + operation_text(row.operation) + ", " +
              std::to_string(row.bytes) + " B), for " + duration_text(job.time - row.since) + ": called by " +
              ranks_text(row.called);
  if (!row.complete.empty())
    text += "; complete on " + ranks_text(row.complete);
  if (!row.missing.empty())
    text += "; not by " + ranks_text(row.missing);
  if (!row.unknown.empty())
    text += "; not known of " + ranks_text(row.unknown);
  return text;
}

std::string counts_text(const count_difference& row) {
  std::map<std::uint64_t, std::vector<std::int32_t>> by_count;
  for (const auto& [rank, count] : row.calls)
    by_count[count].push_back(rank);
  std::string text = name_text(row.tensor) + ":";
  for (const auto& [count, ranks] : by_count)
    text += std::string(text.ends_with(':') ? " " : ", ") + std::to_string(count) +
            (count == 1 ? " time on " : " times on ") + ranks_text(ranks);
  return text;
}

// ---- JSON ------------------------------------------------------------------------------------------------------

std::string_view word_of(rank_work work) {
  switch (work) {
  case rank_work::waiting:
    return "waiting";
  case rank_work::on_path:
    return "on_path";
  case rank_work::user_code:
    return "user_code";
  case rank_work::no_call:
    return "no_call";
  case rank_work::joining:
    return "joining";
  case rank_work::not_started:
    return "not_started";
  case rank_work::gone:
    return "gone";
  case rank_work::no_record:
    return "no_record";
  }
  return "";
}

std::string json_pending(const pending_tensor& row, const explanation& job) {
  return "{" + json_tensor(row.tensor) + ", \"operation\": " + json_string(operation_text(row.operation)) +
         ", \"bytes\": " + std::to_string(row.bytes) +
         ", \"seconds\": " + json_number(seconds(job.time - row.since)) +
         ", \"called\": " + json_ranks(row.called) + ", \"complete\": " + json_ranks(row.complete) +
         ", \"missing\": " + json_ranks(row.missing) + ", \"unknown\": " + json_ranks(row.unknown) +
         ", \"differs\": " + json_ranks(row.differs) + "}";
}

std::string json_rank(const rank_state& state, const explanation& job) {
  std::string text = "{\"rank\": " + std::to_string(state.rank) +
                     ", \"slot\": " + std::to_string(state.slot) + ", \"host\": " + json_string(state.host) +
                     ", \"work\": \"" + std::string(word_of(state.work)) +
                     "\", \"text\": " + json_string(with_ending(state, job));
  if (state.tensor)
    text += ", " + json_tensor(*state.tensor) + ", \"pending\": " + (state.pending ? "true" : "false");
  if (state.since)
    text += ", \"seconds\": " + json_number(seconds(job.time - *state.since));
  if (state.process != 0)
    text += ", \"process\": " + std::to_string(state.process);
  if (!state.stack.empty())
    text += ", \"stack\": " + json_list(state.stack, json_string);
  if (state.regroup)
    text += ", \"regroup\": \"" + std::string(to_string(state.regroup->phase)) +
            "\", \"regroup_since\": " + json_number(seconds(state.regroup->since));
  if (!state.ending.empty())
    text += ", \"ending\": " + json_string(state.ending) +
            ", \"ended_by_launcher\": " + (state.told_to_end ? "true" : "false");
  return text + "}";
}

} // namespace

std::string text_of(const explanation& job) {
  std::string page = "A job of " + members_text(job) + (job.ended ? ", which ended at " : ", at ") +
                     time_text(job.time) + ".\n";
  for (const auto& reason : job.reasons)
    page += "The ranks ended with: " + printable(reason) + "\n";
  auto causes = causes_of(job);
  if (causes.empty() && job.came_together())
    page += std::string("\nNo rank waits for another") + (job.running ? " now.\n" : ".\n");
  const auto as_is = [](const std::string& line) { return line; };
  add_list(page, "Cause:", causes, as_is);
  add_list(page,
           "Tensors that " + in_tense(job, "were", "are") + " not complete, longest first:", job.pending,
           [&](const auto& row) { return pending_text(row, job); });
  add_list(page, "Ranks:", job.ranks, [&](const auto& state) { return rank_text(state, job, "      "); });
  add_list(page, "Numbers of calls that differ:", job.counts, counts_text);
  return page;
}

std::string text_of_ranks(const explanation& job, const std::vector<std::int32_t>& ranks) {
  std::string text;
  for (const auto& state : job.ranks)
    if (state.work != rank_work::no_record && std::ranges::find(ranks, state.rank) != ranks.end())
      text += rank_text(state, job, "    ") + "\n";
  return text;
}

std::string json_of(const explanation& job) {
  const auto pending = [&](const auto& row) { return json_pending(row, job); };
  return "{\"size\": " + std::to_string(job.size) + ", \"generation\": " + std::to_string(job.generation) +
         ", \"time\": " + json_number(seconds(job.time)) + ", \"ended\": " + (job.ended ? "true" : "false") +
         ",\n \"reasons\": " + json_list(job.reasons, json_string) +
         ",\n \"causes\": " + json_list(causes_of(job), json_string) +
         ",\n \"pending\": " + json_list(job.pending, pending) + ",\n \"late\": " +
         json_list(job.late,
                   [](const late_tensor& row) {
                     return "{" + json_tensor(row.tensor) + ", \"ranks\": " + json_ranks(row.ranks) + "}";
                   }) +
         ",\n \"left\": " + json_ranks(job.left) +
         ",\n \"mismatched\": " + json_list(job.mismatched, pending) +
         ",\n \"ranks\": " + json_list(job.ranks, [&](const auto& state) { return json_rank(state, job); }) +
         ",\n \"conflicts\": " +
         json_list(job.conflicts,
                   [](const order_conflict& row) {
                     return "{\"ranks\": [" + std::to_string(row.rank) + ", " + std::to_string(row.other) +
                            "], \"tensors\": [" + json_string(row.tensor.name) + ", " +
                            json_string(row.other_tensor.name) + "]}";
                   }) +
         ",\n \"counts\": " +
         json_list(job.counts,
                   [](const count_difference& row) {
                     return "{" + json_tensor(row.tensor) + ", \"calls\": " +
                            json_list(row.calls,
                                      [](const auto& entry) {
                                        return "[" + std::to_string(entry.first) + ", " +
                                               std::to_string(entry.second) + "]";
                                      }) +
                            "}";
                   }) +
         "}\n";
}

} // namespace farandole
