#include "tools/farandole/report/report_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "messages/values/printable.hpp"
#include "tools/farandole/explain/record_text.hpp"

namespace farandole {

namespace {

/// The number of rows of each list that are printed.
constexpr std::size_t most_rows = 16;
/// Segments of a critical path that take less of it than this are printed together.
constexpr double least_share = 0.01;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), pattern, values...);
  return text.data();
}

double milliseconds(trace_time time) {
  return static_cast<double>(time.count()) * 1e-6;
}

/// Three digits: "1.23 s", "12.3 ms", "123 µs".
std::string duration_text(trace_time time) {
  const auto value = milliseconds(time);
  const auto digits = [](double number) { return number < 9.995 ? 2 : number < 99.95 ? 1 : 0; };
  if (value >= 999.5)
    return format("%.*f s", digits(value / 1e3), value / 1e3);
  if (value >= 0.9995)
    return format("%.*f ms", digits(value), value);
  return format("%.0f µs", value * 1e3);
}

std::string percent(double share) {
  return format("%.0f %%", share * 100);
}

double share_of(trace_time part, trace_time whole) {
  return whole.count() > 0 ? static_cast<double>(part.count()) / static_cast<double>(whole.count()) : 0;
}

std::string rank_text(std::int32_t rank) {
  return "rank " + std::to_string(rank);
}

std::string host_text(const std::string& host) {
  return host.empty() ? "a host without a record" : printable_name(host);
}

// ---- tables ----------------------------------------------------------------------------------------------------

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char letter) { return (letter & 0xc0) != 0x80; }));
}

/// Columns of texts, the first one to the left and the others to the right.
class text_table {
public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i) {
        widths.resize(std::max(widths.size(), i + 1));
        widths[i] = std::max(widths[i], width_of(row[i]));
      }
    std::string page;
    for (const auto& row : rows_) {
      std::string line = " ";
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string space(widths[i] - width_of(row[i]), ' ');
        line += (i == 0 ? " " : "  ") + (i == 0 ? row[i] + space : space + row[i]);
      }
      page += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return page;
  }

private:
  std::vector<std::vector<std::string>> rows_;
};

std::vector<std::string> row_of_times(const std::string& name, const step_time& time) {
  const auto number = [](trace_time value) { return format("%.2f", milliseconds(value)); };
  return {name,
          number(time.wall),
          number(time.outside),
          number(time.blocked_total()),
          number(time.negotiation),
          number(time.queue),
          number(time.transfer),
          number(time.hidden)};
}

/// The rows of many ranks would not fit on a page: those that spend most time outside the library are shown.
std::string time_table(const job_report& report) {
  text_table table;
  table.add({"", "step", "outside", "blocked", "negotiation", "queue", "transfer", "hidden"});
  auto ranks = report.ranks;
  if (ranks.size() > most_rows) {
    std::ranges::stable_sort(ranks, std::ranges::greater(),
                             [](const rank_report& rank) { return rank.time.outside; });
    ranks.resize(most_rows);
    std::ranges::sort(ranks, {}, &rank_report::rank);
  }
  for (const auto& rank : ranks)
    table.add(row_of_times(rank_text(rank.rank) + " on " + host_text(rank.host), rank.time));
  if (report.ranks.size() > 1)
    table.add(row_of_times("mean of all " + std::to_string(report.ranks.size()) + " ranks", report.mean));
  return table.text();
}

std::string blocked_list(const job_report& report) {
  std::vector<std::pair<std::int32_t, blocked_time>> causes(report.mean.blocked.begin(),
                                                            report.mean.blocked.end());
  std::ranges::stable_sort(causes, std::ranges::greater(),
                           [](const auto& cause) { return cause.second.total(); });
  text_table table;
  for (std::size_t i = 0; i < std::min(causes.size(), most_rows); ++i) {
    const auto& [rank, blocked] = causes[i];
    table.add({"by " + rank_text(rank), duration_text(blocked.total()),
               percent(share_of(blocked.total(), report.mean.blocked_total()))});
  }
  if (causes.size() > most_rows)
    table.add({"and by " + std::to_string(causes.size() - most_rows) + " other ranks (--json lists all)"});
  return table.text();
}

// ---- sentences -------------------------------------------------------------------------------------------------

std::string kind_text(const straggler& found) {
  switch (found.kind) {
  case straggler_kind::late_at_call:
    return "is late at its calls: it spends more time outside the library than the other ranks";
  case straggler_kind::slow_in_transfer:
    return "is slow in transfers: it takes longer than the other ranks to move its part";
  case straggler_kind::host:
    return "is slow: all of its ranks are late";
  case straggler_kind::link:
    return "has a slow link: its ranks call in time, but messages to and from it travel longer than those of "
           "other hosts";
  case straggler_kind::host_or_link:
    return "or its link is slow: requests of its ranks reach rank 0 last, although these ranks do not spend "
           "more time outside the library; the records do not tell which of the two";
  }
  return "";
}

std::string straggler_text(const reported_straggler& row, const job_report& report) {
  const auto& found = row.straggler;
  const auto steps = report.steps.steps.size();
  const auto name = found.rank < 0 ? "the host " + host_text(found.host)
                                   : rank_text(found.rank) + " on " + host_text(found.host);
  auto text = name + " " + kind_text(found) + ". The " +
              (found.rank < 0 ? "ranks of other hosts" : "other ranks") + " wait for it for " +
              duration_text(found.cost) + " in a step on average, which is " + percent(found.share) +
              " of all blocked time. It was the main cause in " + std::to_string(found.caused_steps) +
              " of " + std::to_string(steps) + " steps";
  if (found.alternates)
    text += ", mostly in every second one";
  const auto& first = report.steps.steps.front();
  return text + (row.onset_step == first.number
                     ? ", from the first recorded step on."
                     : ", since step " + std::to_string(row.onset_step) + " (" + time_text(row.onset) + ").");
}

std::string use_text(const path_segment& segment, const job_report& report) {
  const auto tensor = segment.tensor ? name_text(report.tensors.at(*segment.tensor)) : "";
  const auto of = [&](const std::string& text) { return text + (tensor.empty() ? "" : " of " + tensor); };
  switch (segment.use) {
  case time_use::outside:
    return "outside the library" + (tensor.empty() ? "" : ", before " + tensor);
  case time_use::late_call:
    return of("has not called, and has no record of the call");
  case time_use::late_message:
    return "messages to or from its host travel long" + (tensor.empty() ? "" : ", for " + tensor);
  case time_use::late_transfer:
    return of("is late in the transfer");
  case time_use::negotiation:
    return of("negotiation");
  case time_use::queue:
    return "the bundle" + (tensor.empty() ? "" : " of " + tensor) + " waits behind others";
  case time_use::transfer:
    return of("transfer");
  }
  return "";
}

std::string path_text(const reported_path& path, const job_report& report) {
  text_table table;
  trace_time small{0}, whole{0};
  for (const auto& segment : path.segments)
    whole += segment.length;
  std::size_t rows = 0;
  std::string page;
  for (const auto& segment : path.segments) {
    if (share_of(segment.length, whole) < least_share || rows == most_rows) {
      small += segment.length;
      continue;
    }
    ++rows;
    page += "  " + format("%10s", duration_text(segment.length).c_str()) + "  " + rank_text(segment.rank) +
            ": " + use_text(segment, report) + "\n";
  }
  if (small.count() > 0)
    page += "  " + format("%10s", duration_text(small).c_str()) + "  shorter segments\n";
  return page;
}

std::string heading(const job_report& report) {
  const auto count = report.steps.steps.size();
  auto page = "A job of " + std::to_string(report.size) + (report.size == 1 ? " rank" : " ranks") +
              ", generation " + std::to_string(report.generation) + ": " + std::to_string(count) +
              (count == 1 ? " step, " : " steps, ") + time_text(report.begin) + " to " +
              time_text(report.end) + ".\n";
  if (report.steps.marked)
    page += "The program has marked its steps: the first one here is step " +
            std::to_string(report.steps.steps.front().number) + ".\n";
  else
    page += "Steps are inferred from recurring names: each begins with the call for " +
            name_text(report.steps.first) + ".\n";
  if (report.steps.other_kinds > 0)
    page += std::to_string(report.steps.other_kinds) +
            " steps that begin with another tensor, such as those of an evaluation, are left out.\n";
  if (!report.hosts_compared)
    page +=
        "The clocks of some hosts were not measured, so calls on these hosts are compared by the record of "
        "rank 0.\n";
  else if (report.clock_error.count() > 0)
    page += "Times of different hosts are compared with an error of at most " +
            duration_text(report.clock_error) + ".\n";
  if (!report.unrecorded.empty())
    page +=
        "There are no records of " + ranks_text(report.unrecorded) +
        ". Waits for them count as negotiation or transfer where the leader's record does not name them.\n";
  return page;
}

// ---- JSON ------------------------------------------------------------------------------------------------------

std::string_view word_of(time_use use) {
  switch (use) {
  case time_use::outside:
    return "outside";
  case time_use::late_call:
    return "late_call";
  case time_use::late_message:
    return "late_message";
  case time_use::late_transfer:
    return "late_transfer";
  case time_use::negotiation:
    return "negotiation";
  case time_use::queue:
    return "queue";
  case time_use::transfer:
    return "transfer";
  }
  return "";
}

std::string_view word_of(straggler_kind kind) {
  switch (kind) {
  case straggler_kind::late_at_call:
    return "late_at_call";
  case straggler_kind::slow_in_transfer:
    return "slow_in_transfer";
  case straggler_kind::host:
    return "host";
  case straggler_kind::link:
    return "link";
  case straggler_kind::host_or_link:
    return "host_or_link";
  }
  return "";
}

std::string json_time(const char* name, trace_time time) {
  return "\"" + std::string(name) + "\": " + json_number(seconds(time));
}

std::string json_step(const step_time& time) {
  return json_time("step", time.wall) + ", " + json_time("outside", time.outside) + ", " +
         json_time("blocked", time.blocked_total()) + ", " + json_time("negotiation", time.negotiation) +
         ", " + json_time("queue", time.queue) + ", " + json_time("transfer", time.transfer) + ", " +
         json_time("hidden", time.hidden) +
         ", \"blocked_by\": " + json_list(time.blocked, [](const auto& entry) {
           return "{\"rank\": " + std::to_string(entry.first) + ", " + json_time("call", entry.second.call) +
                  ", " + json_time("message", entry.second.message) + ", " +
                  json_time("transfer", entry.second.transfer) + "}";
         });
}

std::string json_straggler(const reported_straggler& row) {
  const auto& found = row.straggler;
  return "{\"kind\": \"" + std::string(word_of(found.kind)) +
         "\", \"rank\": " + (found.rank < 0 ? "null" : std::to_string(found.rank)) +
         ", \"host\": " + json_string(found.host) + ", " + json_time("cost", found.cost) +
         ", \"share\": " + json_number(found.share) +
         ", \"caused_steps\": " + std::to_string(found.caused_steps) +
         ", \"alternates\": " + (found.alternates ? "true" : "false") +
         ", \"onset_step\": " + std::to_string(row.onset_step) + ", " + json_time("onset", row.onset) + "}";
}

std::string json_path(const reported_path& path, const job_report& report) {
  return "{\"step\": " + std::to_string(path.step) + ", " + json_time("length", path.length) +
         ", \"segments\": " +
         json_list(path.segments,
                   [&](const path_segment& segment) {
                     return "{\"rank\": " + std::to_string(segment.rank) + ", \"use\": \"" +
                            std::string(word_of(segment.use)) + "\", " + json_time("length", segment.length) +
                            (segment.tensor ? ", " + json_tensor(report.tensors.at(*segment.tensor)) : "") +
                            "}";
                   }) +
         "}";
}

} // namespace

std::string text_of(const job_report& report) {
  auto page = heading(report);
  page += "\nA step takes " + duration_text(report.median) + " (median); the slowest of the last " +
          std::to_string(std::min<std::size_t>(report.steps.steps.size(), 100)) + " took " +
          duration_text(report.slowest) + ".\n";
  page += "\nWhere the time of a step goes, mean in ms:\n" + time_table(report);
  if (report.mean.blocked_total().count() > 0)
    page += "\nRanks are blocked for " + percent(report.blocked_share) +
            " of the time, mean of a step and a rank:\n" + blocked_list(report);
  if (report.size > 1) {
    page += report.stragglers.empty() ? "\nNo rank holds up the others more often than chance explains.\n"
                                      : "\nStragglers:\n";
    for (const auto& row : report.stragglers)
      page += "  " + straggler_text(row, report) + "\n";
    if (!report.stragglers.empty())
      page += std::string("  Without ") + (report.stragglers.size() == 1 ? "it" : "them") +
              ", a step would take about " + duration_text(report.expected) + ".\n";
  }
  page += "\nCritical path of step " + std::to_string(report.median_path.step) +
          ", which has the median length (" + duration_text(report.median_path.length) + "):\n" +
          path_text(report.median_path, report);
  if (report.slowest_path.step != report.median_path.step)
    page += "\nCritical path of step " + std::to_string(report.slowest_path.step) +
            ", which is the slowest (" + duration_text(report.slowest_path.length) + "):\n" +
            path_text(report.slowest_path, report);
  return page;
}

std::string json_of(const job_report& report) {
  return "{\"size\": " + std::to_string(report.size) +
         ", \"generation\": " + std::to_string(report.generation) +
         ", \"unrecorded\": " + json_ranks(report.unrecorded) +
         ", \"hosts_compared\": " + (report.hosts_compared ? "true" : "false") + ", " +
         json_time("clock_error", report.clock_error) +
         ",\n \"steps\": " + std::to_string(report.steps.steps.size()) +
         ", \"first_step\": " + std::to_string(report.steps.steps.front().number) +
         ", \"marked\": " + (report.steps.marked ? "true" : "false") +
         ", \"begins_with\": " + json_string(report.steps.first.name) +
         ", \"other_kinds\": " + std::to_string(report.steps.other_kinds) + ",\n " +
         json_time("begin", report.begin) + ", " + json_time("end", report.end) + ", " +
         json_time("median", report.median) + ", " + json_time("slowest", report.slowest) + ", " +
         json_time("expected", report.expected) +
         ", \"blocked_share\": " + json_number(report.blocked_share) + ",\n \"mean\": {" +
         json_step(report.mean) + "},\n \"ranks\": " +
         json_list(report.ranks,
                   [](const rank_report& rank) {
                     return "{\"rank\": " + std::to_string(rank.rank) +
                            ", \"host\": " + json_string(rank.host) + ", " + json_step(rank.time) + "}";
                   }) +
         ",\n \"stragglers\": " + json_list(report.stragglers, json_straggler) +
         ",\n \"median_path\": " + json_path(report.median_path, report) +
         ",\n \"slowest_path\": " + json_path(report.slowest_path, report) + "}\n";
}

std::string refusal_of(const job_report& report) {
  return "there are no steps to report: " + report.steps.problem +
         ". Call farandole.mark_step() at the end of each step, on all ranks, or give the tensors the same "
         "names in each "
         "step. Each thread keeps its last 4,096 events only: raise FARANDOLE_RECORDER_EVENTS if a step has "
         "more";
}

} // namespace farandole
