// The part of the rendezvous that reports stalls: it gathers the notices of all members, and gives one report to the log
// and to all members.
#include <algorithm>
#include <set>
#include <utility>

#include "actors/event_loop/clock.hpp"
#include "actors/rendezvous/rendezvous.hpp"

namespace farandole {

void rendezvous_state::stalls_watched_by(const watch_stalls& event) {
  stall_explainer_ = caf::actor_cast<caf::actor>(event.process);
}

// The rank in the running generation of the member with this link.
std::optional<std::int32_t> rendezvous_state::rank_of(link_id link) const {
  const auto slot = members_.slot_of(link);
  const auto& slots = members_.slots();
  const auto found = slot ? std::ranges::find(slots, *slot) : slots.end();
  if (!members_.running() || found == slots.end())
    return std::nullopt;
  return static_cast<std::int32_t>(found - slots.begin());
}

// The set in the envelope is the id for users, because the rendezvous does not know the numbers of process sets.
void rendezvous_state::take_stalls(link_id link, const envelope& message) {
  auto notice = decode_stall_notice(message);
  if (!notice)
    return refuse(link, {notice.error().text});
  const auto rank = rank_of(link);
  if (!rank || message.generation() != members_.generation())
    return;
  const stall_origin origin{*rank, message.set(), notice->source};
  follow(stalls_.take(origin, std::move(*notice), now(self)));
}

void rendezvous_state::forget_stalls(link_id link) {
  if (const auto rank = rank_of(link))
    stalls_.forget(*rank);
}

// The generation has ended.
void rendezvous_state::forget_stalls() {
  publish_waiting_stall({});
  stalls_.clear();
}

void rendezvous_state::check_stalls() {
  follow(stalls_.due(now(self)));
}

void rendezvous_state::follow(stall_reports::step next) {
  if (next.call_next)
    self->delayed_send(self, std::max(*next.call_next - now(self), instant::duration::zero()), stalls_due{});
  if (!next.report || closing_)
    return;
  publish_waiting_stall({});
  if (next.report->over || !stall_explainer_)
    return publish(*next.report);
  stall_found found{++stall_number_, next.report->text, {}};
  const auto& slots = members_.slots();
  for (const auto rank : next.missing)
    if (static_cast<std::size_t>(rank) < slots.size())
      found.missing.emplace(rank, slots[static_cast<std::size_t>(rank)]);
  waiting_stall_ = std::move(next.report);
  caf::anon_send(stall_explainer_, std::move(found));
  self->delayed_send(self, explanation_time, stall_unexplained{stall_number_});
}

void rendezvous_state::take_explanation(const stall_explained& event) {
  if (event.number == stall_number_)
    publish_waiting_stall(event.lines);
}

void rendezvous_state::miss_explanation(const stall_unexplained& event) {
  if (event.number == stall_number_)
    publish_waiting_stall({});
}

// `lines` are added to the text. Does nothing if no report waits for its explanation.
void rendezvous_state::publish_waiting_stall(const std::string& lines) {
  auto report = std::exchange(waiting_stall_, std::nullopt);
  if (!report)
    return;
  if (!lines.empty())
    report->text += "\n" + lines;
  publish(*report);
}

// A launcher in another process has the user's terminal, so it prints the report.
void rendezvous_state::publish(const stall_report& report) {
  const auto message = encode(address{members_.generation(), 0, -1}, report);
  if (launcher_link_ != 0)
    send(launcher_link_, message);
  else if (options_.log)
    options_.log->warning(report.text);
  const std::set<std::int32_t> slots(members_.slots().begin(), members_.slots().end());
  for (const auto& [link, caller] : links_)
    if (const auto slot = members_.slot_of(link); slot && slots.contains(*slot))
      send(link, message);
}

} // namespace farandole
