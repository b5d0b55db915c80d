#include "tools/farandole/explain/explanation_text.hpp"

#include <algorithm>

#include "messages/values/printable.hpp"
#include "tools/farandole/explain/causes.hpp"
#include "tools/farandole/explain/rank_text.hpp"
#include "tools/farandole/explain/record_text.hpp"

namespace farandole {

namespace {

/// The number of rows of each list that are printed.
constexpr std::size_t most_rows = 10;

/// What the rank was doing, then its stack. Lines after the first one have this indentation.
std::string rank_text(const rank_state& state, const explanation& job, const char* indentation) {
  auto text = process_text(state) + " " + activity_text(state, job);
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
                     "\", \"text\": " + json_string(activity_text(state, job));
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
