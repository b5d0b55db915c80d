#include "tests/world/elastic_faults.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "tests/world/later.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t fault_stream = 406;

handshake_verdict verdict_of(const fault& injected) {
  constexpr handshake_verdict all[] = {handshake_verdict::not_tls, handshake_verdict::wrong_secret,
                                       handshake_verdict::silence, handshake_verdict::hangs_up};
  return all[injected.pick / 16 % std::size(all)];
}

// Whether heartbeats may come late or not at all.
bool disturbs_links(fault_kind kind) {
  switch (kind) {
  case fault_kind::link_lost:
  case fault_kind::delay:
  case fault_kind::partition:
  case fault_kind::partition_one_way:
  case fault_kind::death:
  case fault_kind::half_open_link:
  case fault_kind::corrupted_record:
    return true;
  default:
    return false;
  }
}

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

// A fault without a possible target waits, and so do the faults behind it.
bool elastic_faults::can_hit(const fault& injected, process_id worker) const {
  switch (injected.kind) {
  case fault_kind::death:
  case fault_kind::slow_rank:
    return worker > launcher_process;
  case fault_kind::stopped_process:
    return worker > launcher_process && launcher_.worker(worker - 1)->runs() &&
           !world_.all_processes().stopped(worker);
  case fault_kind::rendezvous_death:
  case fault_kind::impostor:
    return service_.may_end();
  default:
    return true;
  }
}

void elastic_faults::note(const std::string& text) {
  last_ = std::max(last_, world_.now());
  stage_.log.note([&] { return "FAULT: " + text; });
  stage_.log.disturbed();
}

void elastic_faults::disturb(const std::string& text) {
  note(text);
  stage_.silences.disturbed(world_.now());
}

void elastic_faults::apply(const fault& injected, process_id from, process_id to) {
  note(to_string(injected));
  last_ = std::max(last_, world_.now() + injected.lasts);
  if (injected.kind != fault_kind::stopped_process)
    stage_.silences.disturbed(world_.now() + injected.lasts);
  if (disturbs_links(injected.kind))
    stage_.silences.links_disturbed();
  const auto end = injected.pick % 2 == 0 ? from : to;
  const auto worker = end > launcher_process ? end : std::max(from, to);
  switch (injected.kind) {
  case fault_kind::link_lost:
    return stage_.net.break_links(from, to, milliseconds(injected.pick % 3 == 0 ? 2000 : 5));
  case fault_kind::delay:
    stage_.net.slow_down(injected.lasts);
    return later(world_, no_process, injected.lasts, [this] { stage_.net.slow_down(seconds(0)); });
  case fault_kind::reorder:
    return reorder(injected);
  case fault_kind::partition:
  case fault_kind::partition_one_way:
    return partition(injected, end);
  case fault_kind::death:
    return kill(worker - 1);
  case fault_kind::slow_rank:
    stage_.net.slow_down(worker, milliseconds(20));
    stage_.plane.slow_down(worker, 100);
    return launcher_.worker(worker - 1)->slow_down();
  case fault_kind::clock_jump:
    return world_.jump(injected.lasts);
  case fault_kind::discovery_lies:
    return launcher_.lie(world_.now() + injected.lasts, injected.pick);
  case fault_kind::discovery_flaps:
    return launcher_.flap(world_.now() + injected.lasts, injected.pick);
  case fault_kind::rendezvous_death:
    if (injected.pick % 2 == 0)
      return end_rendezvous(injected);
    return service_.at_disk_call(1 + injected.pick / 2 % 6, [this, injected] {
      disturb("the rendezvous ends while it writes to its disk");
      end_rendezvous(injected);
    });
  case fault_kind::disk_full:
    service_.fill_disk(true);
    return later(world_, no_process, injected.lasts, [this] { service_.fill_disk(false); });
  case fault_kind::stopped_process:
    return stop(std::max(from, to) - 1, injected.lasts);
  case fault_kind::half_open_link:
    return stage_.net.break_links_of(end, end == from ? to : from, injected.lasts,
                                     "connection reset by peer");
  case fault_kind::corrupted_record:
    return stage_.net.break_links_of(to, from, milliseconds(5), "TLS: decryption failed or bad record mac");
  case fault_kind::disturbed_handshake:
    return disturb_handshakes(injected, end);
  case fault_kind::impostor:
    return send_impostor(injected);
  case fault_kind::strangers:
    return send_strangers(injected, end);
  }
}

void elastic_faults::kill(std::int32_t slot) {
  if (auto* worker = launcher_.worker(slot); worker && worker->runs()) {
    disturb("slot " + std::to_string(slot) + " is killed");
    stage_.silences.links_disturbed();
    worker->kill(SIGKILL);
  }
}

void elastic_faults::reorder(const fault& injected) {
  for (const auto& [slot, elastic_worker] : launcher_.workers())
    stage_.net.slow_down(elastic_worker::id_of(slot), milliseconds(draw_.below(20)));
  later(world_, no_process, injected.lasts, [this] {
    for (const auto& [slot, elastic_worker] : launcher_.workers())
      stage_.net.slow_down(elastic_worker::id_of(slot), seconds(0));
  });
}

void elastic_faults::partition(const fault& injected, process_id process) {
  auto& net = stage_.net;
  net.deafen(process, true);
  net.mute(process, injected.kind == fault_kind::partition);
  later(world_, no_process, injected.lasts, [&net, process] {
    net.deafen(process, false);
    net.mute(process, false);
  });
}

void elastic_faults::end_rendezvous(const fault& injected) {
  last_ = std::max(last_, world_.now() + injected.lasts);
  stage_.silences.disturbed(last_);
  service_.end(injected.pick / 16 % 3 == 0);
  later(world_, no_process, injected.lasts, [this] { service_.start(); });
}

// While the process is stopped, its links may be given up; it then rejoins as a new member.
void elastic_faults::stop(std::int32_t slot, std::chrono::nanoseconds lasts) {
  note("slot " + std::to_string(slot) + " is stopped");
  stage_.log.cut_off(slot);
  auto* worker = launcher_.worker(slot);
  worker->stop();
  later(world_, no_process, lasts, [this, worker, slot] {
    note("slot " + std::to_string(slot) + " continues");
    worker->proceed();
  });
}

void elastic_faults::disturb_handshakes(const fault& injected, process_id process) {
  stage_.net.disturb(process, verdict_of(injected));
  later(world_, no_process, injected.lasts,
        [this, process] { stage_.net.disturb(process, handshake_verdict::accepted); });
}

void elastic_faults::send_impostor(const fault& injected) {
  const auto location = stage_.rendezvous_ip + ":" + std::to_string(stage_.rendezvous_port);
  stage_.net.impersonate(location, verdict_of(injected));
  end_rendezvous(injected);
  later(world_, no_process, injected.lasts,
        [this, location] { stage_.net.impersonate(location, handshake_verdict::accepted); });
}

void elastic_faults::send_strangers(const fault& injected, process_id process) {
  const auto kind = injected.pick / 1024 % 3 == 0 ? stranger_kind::silent : stranger_kind::any;
  stage_.net.crowd(process, 2 + injected.pick / 16 % 40, kind, world_.now() + injected.lasts, injected.pick);
}

} // namespace farandole::testing
