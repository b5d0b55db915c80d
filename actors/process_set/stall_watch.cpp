#include "actors/process_set/stall_watch.hpp"

#include <algorithm>
#include <utility>

#include "actors/interfaces/generation.hpp"

namespace farandole {

namespace {

// Both actors answer at once. This only guards against an actor that has ended.
constexpr std::chrono::seconds answer_time{1};

} // namespace

void stall_watch_state::begin(stall_watch_setup setup) {
  setup_ = std::move(setup);
  for (const auto source : {stall_source::leader, stall_source::fast_path})
    notices_[static_cast<std::size_t>(source)] = stall_notices(source, setup_.rules.warning);
  self->delayed_send(self, setup_.rules.next_look(longest_), tick_atom::value);
}

stall_watch_state::~stall_watch_state() {
  for (auto& source : notices_)
    if (auto notice = source.update({}, std::chrono::nanoseconds{0}))
      tell(std::move(*notice));
}

void stall_watch_state::look() {
  longest_ = std::chrono::nanoseconds{0};
  unanswered_ = 1; // until all questions are asked
  ask(setup_.negotiator, stall_source::leader);
  ask(setup_.client, stall_source::fast_path);
  answered();
}

template <class Handle>
void stall_watch_state::ask(const Handle& handle, stall_source source) {
  if (!handle)
    return;
  ++unanswered_;
  self->request(handle, answer_time, stalled_atom::value, setup_.rules.notice_time())
      .then(
          [this, source](const stall_list& waiting) {
            judge(waiting, source);
            answered();
          },
          [this](const caf::error&) { answered(); });
}

void stall_watch_state::answered() {
  if (--unanswered_ == 0)
    self->delayed_send(self, setup_.rules.next_look(longest_), tick_atom::value);
}

void stall_watch_state::judge(const stall_list& waiting, stall_source source) {
  const auto current_time =
      std::chrono::duration_cast<std::chrono::nanoseconds>(self->clock().now().time_since_epoch());
  for (const auto& tensor : waiting.stalls)
    longest_ = std::max(longest_, tensor.waited);
  if (auto notice = notices_[static_cast<std::size_t>(source)].update(waiting.stalls, current_time)) {
    record(*notice);
    tell(std::move(*notice));
  }
  const auto set = setup_.set_id == 0 ? "" : " of process set " + std::to_string(setup_.set_id);
  if (auto reason = setup_.rules.shutdown_complaint(waiting.stalls, set); !reason.empty())
    self->send(setup_.member, generation_broken{std::move(reason), error_kind::timed_out});
}

void stall_watch_state::tell(stall_notice notice) const {
  caf::anon_send(setup_.member, stalls_noticed{setup_.set_id, std::move(notice)});
}

void stall_watch_state::record(const stall_notice& notice) const {
  if (!setup_.recorder)
    return;
  for (const auto& tensor : notice.tensors)
    if (tensor.waited > setup_.rules.warning)
      setup_.recorder->record(event_kind::stall, setup_.recorder->intern(tensor.name), setup_.set_id, 0,
                              static_cast<std::uint64_t>(tensor.waited.count()),
                              tensor.missing.empty() ? std::uint64_t{0}
                                                     : static_cast<std::uint64_t>(tensor.missing.front()));
}

stall_watch_actor::behavior_type stall_watch(stall_watch_actor::stateful_pointer<stall_watch_state> self,
                                             stall_watch_setup setup) {
  auto& state = self->state;
  state.begin(std::move(setup));
  return {[&state](tick_atom) { state.look(); }};
}

} // namespace farandole
