#include "tools/farandole/explain/rank_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "messages/values/printable.hpp"
#include "tools/farandole/explain/record_text.hpp"

namespace farandole {

namespace {

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
    return in_tense(job, "had", "has") + " not called any operation" +
           (state.since ? " in the " + lasted() + " since its generation began" : "");
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

} // namespace

std::string duration_text(record_time duration) {
  std::array<char, 32> text{};
  const auto length = seconds(std::max(duration, record_time{0}));
  if (length < 1)
    std::snprintf(text.data(), text.size(), "%.0f ms", length * 1e3);
  else
    std::snprintf(text.data(), text.size(), "%.1f s", length);
  return text.data();
}

std::string in_tense(const explanation& job, const char* past, const char* present) {
  return job.running ? present : past;
}

std::string process_text(const rank_state& state) {
  const auto name = state.rank >= 0 ? "rank " + std::to_string(state.rank)
                                    : "the process of slot " + std::to_string(state.slot);
  return state.host.empty() ? name : name + " on " + printable_name(state.host);
}

std::string activity_text(const rank_state& state, const explanation& job) {
  const bool tells = state.work == rank_work::gone;
  return work_text(state, job) + regroup_text(state, job) + (tells ? "" : ending_text(state));
}

} // namespace farandole
