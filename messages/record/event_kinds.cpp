#include "messages/record/event_kinds.hpp"

#include <algorithm>

namespace farandole {

namespace {

constexpr event_row rows[] = {
    {.kind = event_kind::submitted,
     .text = "submitted",
     .writer = "caller",
     .name = "tensor",
     .detail = "operation",
     .first = "bytes of the input",
     .second = "group, 0: none",
     .meaning = "A caller has submitted an operation that goes through the leader."},
    {.kind = event_kind::published,
     .text = "published",
     .writer = "caller",
     .name = "tensor",
     .detail = "operation",
     .first = "bytes of the input",
     .second = "round",
     .meaning =
         "A caller has submitted an operation on the fast path: its cell is visible to the other members."},
    {.kind = event_kind::cell_published,
     .text = "cell published",
     .writer = "caller",
     .name = "tensor",
     .first = "ticks at which the member published its cell",
     .second = "rank in the set",
     .meaning = "A member's part of a completed round of the fast path. One event for each member.",
     .detailed = true},
    {.kind = event_kind::wait_begin,
     .text = "wait begin",
     .writer = "caller",
     .name = "tensor",
     .meaning = "A caller begins to wait for an operation that is not complete."},
    {.kind = event_kind::wait_end,
     .text = "wait end",
     .writer = "caller",
     .name = "tensor",
     .detail = "error kind, 0: none",
     .meaning = "The wait has ended: the operation is complete, or the caller gave up waiting."},
    {.kind = event_kind::settled,
     .text = "settled",
     .writer = "caller, event loop or lane",
     .name = "tensor",
     .detail = "error kind, 0: none",
     .first = "round + 1 on the fast path, else 0",
     .meaning =
         "The operation is complete on this member, with this outcome. If it was submitted after the end of "
         "the generation, there are no earlier events of it."},
    {.kind = event_kind::announced,
     .text = "announced",
     .writer = "event loop",
     .name = "tensor",
     .first = "id, 0: by name",
     .meaning = "This member has requested the tensor from the leader, or handed the request to its bucket."},
    {.kind = event_kind::request,
     .text = "request",
     .writer = "event loop of the leader",
     .name = "tensor",
     .detail = "operation",
     .first = "rank in the set",
     .meaning = "The leader has received this rank's request for the tensor. Only for sets to which the "
                "leader belongs.",
     .detailed = true},
    {.kind = event_kind::ready,
     .text = "ready",
     .writer = "event loop of the leader",
     .name = "tensor",
     .detail = "operation",
     .first = "nanoseconds since the first rank's request",
     .second = "global ranks of the first and of the last request, in the upper and lower half",
     .meaning = "Every member has requested the tensor."},
    {.kind = event_kind::cut,
     .text = "cut",
     .writer = "event loop of the leader",
     .name = "",
     .detail = "trigger: 1 lane idle, 2 full, 3 flushed",
     .first = "sequence number of the bundle",
     .second = "number of tensors",
     .meaning = "The fusion scheduler has started a bundle, for the reason that the trigger names."},
    {.kind = event_kind::scheduled,
     .text = "scheduled",
     .writer = "event loop",
     .name = "tensor",
     .detail = "operation",
     .first = "sequence number of the bundle",
     .meaning = "The tensor waits in the queue of the lane. One event for each tensor of a bundle."},
    {.kind = event_kind::joined,
     .text = "joined",
     .writer = "event loop",
     .name = "",
     .first = "last rank to join",
     .meaning = "Every member has joined; from here on all of them take part again."},
    {.kind = event_kind::stall,
     .text = "stall",
     .writer = "event loop",
     .name = "tensor",
     .first = "nanoseconds since the first request",
     .second = "lowest missing global rank",
     .meaning = "The tensor waits for ranks for longer than the stall warning time."},
    {.kind = event_kind::generation_begin,
     .text = "generation begin",
     .writer = "event loop",
     .name = "",
     .first = "number of the generation",
     .second = "size and rank of this member, in the upper and lower half",
     .meaning = "This member has entered a generation."},
    {.kind = event_kind::generation_end,
     .text = "generation end",
     .writer = "event loop",
     .name = "reason",
     .detail = "error kind",
     .first = "number of the generation",
     .meaning = "The generation has ended for this member, for the reason that the name states."},
    {.kind = event_kind::set_begin,
     .text = "set begin",
     .writer = "event loop",
     .name = "",
     .first = "epoch",
     .second = "number of members",
     .meaning = "The actors of a process set run. A later epoch means that the set was restarted."},
    {.kind = event_kind::set_end,
     .text = "set end",
     .writer = "event loop",
     .name = "",
     .first = "epoch",
     .meaning = "The actors of a process set have ended."},
    {.kind = event_kind::link_up,
     .text = "link up",
     .writer = "event loop",
     .name = "",
     .first = "global rank of the peer",
     .meaning = "The authenticated connection to this member exists."},
    {.kind = event_kind::link_down,
     .text = "link down",
     .writer = "event loop",
     .name = "reason",
     .first = "global rank of the peer",
     .meaning = "The connection to this member has ended."},
    {.kind = event_kind::path_begin,
     .text = "path begin",
     .writer = "lane",
     .name = "path",
     .detail = "operation",
     .first = "sequence number of the bundle",
     .second = "bytes of the inputs",
     .meaning = "The lane runs the bundle on this path."},
    {.kind = event_kind::path_end,
     .text = "path end",
     .writer = "lane",
     .name = "path",
     .detail = "error kind, 0: none",
     .first = "sequence number of the bundle",
     .second = "nanoseconds spent waiting for other members",
     .meaning = "The path has released the buffers."},
    {.kind = event_kind::step,
     .text = "step",
     .writer = "caller",
     .name = "",
     .first = "number of the step, from 1",
     .meaning = "The program has called mark_step(): a training step ends here."},
    {.kind = event_kind::regroup,
     .text = "regroup",
     .writer = "event loop",
     .name = "",
     .detail = "phase: 1 lost, 2 waiting, 3 connecting",
     .first = "number of the generation: the one that ends in phase 1; in phase 2, the last one of this "
              "process, 0: none; the one that begins in phase 3",
     .meaning = "This process has come to the named phase on its way into the next generation. Without the "
                "loss of a member, and at the start of a job, it begins with phase 2; with phase 3 if the "
                "process is the only one of its job."},
    {.kind = event_kind::gap,
     .text = "gap",
     .writer = "writer of a trace",
     .name = "",
     .first = "number of events",
     .meaning = "The thread wrote events faster than the writer of the trace copied them: these are missing "
                "in the trace before this one."},
};

std::string fields_of(const event_row& row) {
  std::string text;
  const auto add = [&](std::string_view field, std::string_view meaning) {
    if (!meaning.empty())
      text += (text.empty() ? "" : "; ") + std::string(field) + ": " + std::string(meaning);
  };
  add("name", row.name);
  add("detail", row.detail);
  add("first", row.first);
  add("second", row.second);
  return text;
}

} // namespace

std::span<const event_row> event_table() {
  return rows;
}

const event_row* find_event_row(event_kind kind) {
  const auto found =
      std::find_if(std::begin(rows), std::end(rows), [&](const event_row& row) { return row.kind == kind; });
  return found == std::end(rows) ? nullptr : found;
}

std::string event_page() {
  std::string page =
      "# Events\n\n"
      "Each rank records these events. This page is generated from the table in\n"
      "`messages/record/event_kinds.cpp`. Kinds with an asterisk are recorded only while a timeline\n"
      "runs.\n\n"
      "| event | written by | fields | meaning |\n"
      "| --- | --- | --- | --- |\n";
  for (const auto& row : rows)
    page += "| " + std::string(row.text) + (row.detailed ? "\\*" : "") + " | " + std::string(row.writer) +
            " | " + fields_of(row) + " | " + std::string(row.meaning) + " |\n";
  return page;
}

std::string_view to_string(regroup_phase phase) {
  switch (phase) {
  case regroup_phase::lost:
    return "lost";
  case regroup_phase::waiting:
    return "waiting";
  case regroup_phase::connecting:
    return "connecting";
  }
  return "unknown";
}

std::string_view to_string(cut_trigger trigger) {
  switch (trigger) {
  case cut_trigger::lane_idle:
    return "lane idle";
  case cut_trigger::full:
    return "full";
  case cut_trigger::flushed:
    return "flushed";
  }
  return "unknown";
}

} // namespace farandole
