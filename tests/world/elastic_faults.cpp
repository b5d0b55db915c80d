#include "tests/world/elastic_faults.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t fault_stream = 406;

} // namespace

elastic_faults::elastic_faults(simulation& world, elastic_stage& stage, elastic_launcher& launcher,
                               elastic_service& service)
    : world_(world), stage_(stage), launcher_(launcher), service_(service),
      draw_(stage.options.seed, fault_stream) {}

void elastic_faults::arriving(process_id from, process_id to) {
  const auto& all = stage_.options.faults;
  while (!stopped_ && next_ < all.size() && stage_.net.arrived() >= all[next_].at_message &&
         can_hit(all[next_], std::max(from, to)))
    apply(all[next_++], from, to);
}

// One that can hit nobody now waits, and the others behind it.
bool elastic_faults::can_hit(const fault& what, process_id worker) const {
  if (what.kind == fault_kind::death || what.kind == fault_kind::slow_rank)
    return worker > launcher_process;
  return what.kind != fault_kind::rendezvous_death || service_.may_end();
}

void elastic_faults::note(const std::string& text) {
  last_ = std::max(last_, world_.now());
  stage_.log.note([&] { return "FAULT: " + text; });
  stage_.log.disturbed();
}

void elastic_faults::apply(const fault& what, process_id from, process_id to) {
  note(to_string(what));
  last_ = std::max(last_, world_.now() + what.lasts);
  const auto end = what.pick % 2 == 0 ? from : to;
  const auto worker = end > launcher_process ? end : std::max(from, to);
  switch (what.kind) {
  case fault_kind::link_lost:
    return stage_.net.break_links(from, to, milliseconds(what.pick % 3 == 0 ? 2000 : 5));
  case fault_kind::delay:
    stage_.net.slow_down(what.lasts);
    return after(what.lasts, [this] { stage_.net.slow_down(seconds(0)); });
  case fault_kind::reorder:
    return reorder(what);
  case fault_kind::partition:
  case fault_kind::partition_one_way:
    return partition(what, end);
  case fault_kind::death:
    return kill(worker - 1);
  case fault_kind::slow_rank:
    stage_.net.slow_down(worker, milliseconds(20));
    stage_.plane.slow_down(worker, 100);
    return launcher_.worker(worker - 1)->slow_down();
  case fault_kind::clock_jump:
    return world_.jump(what.lasts);
  case fault_kind::discovery_lies:
    return launcher_.lie(world_.now() + what.lasts, what.pick);
  case fault_kind::discovery_flaps:
    return launcher_.flap(world_.now() + what.lasts, what.pick);
  case fault_kind::rendezvous_death:
    if (what.pick % 2 == 0)
      return end_rendezvous(what);
    return service_.at_disk_call(1 + what.pick / 2 % 6, [this, what] {
      note("the rendezvous was in the midst of a write");
      end_rendezvous(what);
    });
  case fault_kind::disk_full:
    service_.fill_disk(true);
    return after(what.lasts, [this] { service_.fill_disk(false); });
  }
}

void elastic_faults::kill(std::int32_t slot) {
  if (auto* worker = launcher_.worker(slot); worker && worker->runs()) {
    note("slot " + std::to_string(slot) + " is killed");
    worker->kill(SIGKILL);
  }
}

void elastic_faults::reorder(const fault& what) {
  for (const auto& [slot, one] : launcher_.workers())
    stage_.net.slow_down(elastic_worker::id_of(slot), milliseconds(draw_.below(20)));
  after(what.lasts, [this] {
    for (const auto& [slot, one] : launcher_.workers())
      stage_.net.slow_down(elastic_worker::id_of(slot), seconds(0));
  });
}

void elastic_faults::partition(const fault& what, process_id who) {
  auto& net = stage_.net;
  net.deafen(who, true);
  net.mute(who, what.kind == fault_kind::partition);
  after(what.lasts, [&net, who] {
    net.deafen(who, false);
    net.mute(who, false);
  });
}

void elastic_faults::end_rendezvous(const fault& what) {
  last_ = std::max(last_, world_.now() + what.lasts);
  service_.end(what.pick / 16 % 3 == 0);
  after(what.lasts, [this] { service_.start(); });
}

void elastic_faults::after(std::chrono::nanoseconds wait, std::function<void()> how) {
  world_.system().spawn([=](caf::event_based_actor* self) {
    self->delayed_send(self, wait, tick_atom::value);
    return caf::behavior{[=](tick_atom) {
      how();
      self->quit();
    }};
  });
}

} // namespace farandole::testing
