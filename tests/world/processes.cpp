#include "tests/world/processes.hpp"

namespace farandole::testing {

namespace {

constexpr std::int64_t million = 1'000'000;

std::chrono::nanoseconds scaled(std::chrono::nanoseconds span, std::int64_t times, std::int64_t by) {
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(static_cast<__int128>(span.count()) * times / by));
}

} // namespace

process_clock::time_point process_clock::local(time_point world) const {
  return time_point(scaled(world.time_since_epoch(), million + faster_ppm, million)) + ahead;
}

process_clock::time_point process_clock::world(time_point local) const {
  const auto since = scaled((local - ahead).time_since_epoch(), million, million + faster_ppm);
  return time_point(since) + std::chrono::nanoseconds(faster_ppm == 0 ? 0 : 2); // compensates for rounding
}

void processes::assign(caf::actor_id actor, process_id process) {
  if (actor >= owners_.size())
    owners_.resize(actor + 1, unknown);
  owners_[actor] = process;
}

void processes::spawned(caf::actor_id actor) {
  if (actor >= owners_.size() || owners_[actor] == unknown)
    assign(actor, running_);
}

std::vector<caf::resumable*> processes::proceed(process_id process) {
  stopped_.erase(process);
  return std::exchange(held_[process], {});
}

std::vector<caf::resumable*> processes::proceed_all() {
  std::vector<caf::resumable*> all;
  stopped_.clear();
  for (auto& [process, jobs] : held_)
    all.insert(all.end(), jobs.begin(), jobs.end());
  held_.clear();
  return all;
}

process_clock processes::clock() const {
  const auto found = clocks_.find(running_);
  return found == clocks_.end() ? process_clock{} : found->second;
}

world_clock::time_point world_clock::now() const noexcept {
  return processes_.told_apart() ? processes_.clock().local(current_time) : current_time;
}

world_clock::time_point world_clock::in_world(time_point t) const {
  return processes_.told_apart() ? processes_.clock().world(t) : t;
}

void world_clock::set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                       std::uint64_t id) {
  test_actor_clock::set_ordinary_timeout(in_world(t), self, type, id);
}

void world_clock::set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                    std::uint64_t id) {
  test_actor_clock::set_multi_timeout(in_world(t), self, type, id);
}

void world_clock::set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) {
  test_actor_clock::set_request_timeout(in_world(t), self, id);
}

void world_clock::schedule_message(time_point t, caf::strong_actor_ptr receiver,
                                   caf::mailbox_element_ptr content) {
  test_actor_clock::schedule_message(in_world(t), std::move(receiver), std::move(content));
}

void world_clock::schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                                   caf::message content) {
  test_actor_clock::schedule_message(in_world(t), std::move(target), std::move(sender), std::move(content));
}

} // namespace farandole::testing
