#include "actors/launch/discoverer.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace farandole {

namespace {

std::string seconds_text(std::chrono::nanoseconds duration) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(duration).count()) + " s";
}

/// Adds the hosts that are other machines, out of `names`, to the result.
discovery_result looked_at(discovery_result result, const std::vector<std::string>& names,
                           const std::function<bool(const std::string&)>& is_remote) {
  for (const auto& host : names)
    if (is_remote(host))
      result.found.remote.insert(host);
  return result;
}

} // namespace

discoverer_actor::behavior_type discoverer(discoverer_actor::stateful_pointer<discoverer_state> self,
                                           const discoverer_spec& spec, const discovery_owner_actor& owner) {
  return self->state.begin(spec, owner);
}

discoverer_actor::behavior_type discoverer_state::begin(const discoverer_spec& spec,
                                                        discovery_owner_actor owner) {
  spec_ = spec;
  owner_ = std::move(owner);
  return {
      [this](run_atom) { run(); },
      [this](close_atom) { self_->quit(); },
      [this](ended_atom, std::uint64_t number) { ended(number); },
      [this](output_atom, int number) { read(number); },
      [this](overdue_atom, std::uint64_t number) { overdue(number); },
      [this](checked_atom, const discovery_result& result) { deliver(result); },
  };
}

discoverer_state::~discoverer_state() {
  end_process();
  const std::lock_guard lock(target_->mutex);
  target_->actor = nullptr;
}

void discoverer_state::run() {
  ++run_;
  auto started = start_process(spec_.script);
  if (!started) {
    deliver({{}, "the host discovery script could not be started: " + started.error().text, {}});
    return;
  }
  process_ = std::move(*started);
  const auto me = caf::actor_cast<discoverer_actor>(self_);
  watched_ = loop_of(self_->system()).watch(std::move(process_.watched), [me, number = run_](watch_event) {
    caf::anon_send(me, ended_atom::value, number);
  });
  open(0, std::move(process_.output));
  open(1, std::move(process_.errors));
  self_->delayed_send(self_, spec_.timeout, overdue_atom::value, run_);
}

void discoverer_state::open(int number, descriptor pipe) {
  const auto me = caf::actor_cast<discoverer_actor>(self_);
  streams_[number].text.clear();
  streams_[number].watch = loop_of(self_->system()).watch(std::move(pipe), [me, number](watch_event) {
    caf::anon_send(me, output_atom::value, number);
  });
}

/// Output beyond the limit is read, so that the script does not block, and dropped. One byte more than the limit is
/// kept, so that ended() detects the excess.
void discoverer_state::read(int number) {
  auto& stream = streams_[number];
  constexpr int most_reads = 64; // a script that prints without end must not occupy the loop
  char buffer[1 << 14];
  for (int turn = 0; turn < most_reads && stream.watch; ++turn) {
    const auto count = ::read(stream.watch.get(), buffer, sizeof buffer);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    if (count <= 0) {
      stream.watch.stop();
      return;
    }
    const auto room = most_output_bytes + 1 - stream.text.size();
    stream.text.append(buffer, std::min(room, static_cast<std::size_t>(count)));
  }
}

void discoverer_state::ended(std::uint64_t run) {
  if (run != run_ || process_.id < 0)
    return;
  const auto exit_status = process_.ending();
  for (int number : {0, 1})
    read(number); // read the rest of the script's output from the pipes
  end_process();
  if (exit_status.failed()) {
    fail(exit_status.text());
  } else if (streams_[0].text.size() > most_output_bytes) {
    fail("printed more than " + std::to_string(most_output_bytes) + " bytes");
  } else {
    auto hosts = parse_discovery(streams_[0].text, spec_.slots_per_host);
    check(hosts ? discovery_result{std::move(*hosts), {}, {}} : discovery_result{{}, hosts.error().text, {}});
  }
}

void discoverer_state::overdue(std::uint64_t run) {
  if (run != run_ || process_.id < 0)
    return;
  end_process();
  fail("did not end within " + seconds_text(spec_.timeout) + " (FARANDOLE_DISCOVERY_TIMEOUT) and was killed");
}

/// Kills the script and all other processes of its process group.
void discoverer_state::end_process() {
  watched_.stop();
  for (auto& stream : streams_)
    stream.watch.stop();
  if (process_.id < 0)
    return;
  process_.signal(SIGKILL);
  process_.reap(spec_.script.keeper);
}

void discoverer_state::fail(const std::string& manner) {
  constexpr std::size_t most_shown = 4096;
  discovery_result result;
  result.problem = "the host discovery script " + spec_.name + " " + manner;
  for (const auto& stream : streams_)
    result.printed += stream.text.substr(0, most_shown);
  deliver(std::move(result));
}

void discoverer_state::check(discovery_result result) {
  std::vector<std::string> names;
  if (spec_.is_remote)
    for (const auto& host : result.found.hosts)
      if (!remote_.contains(host.name))
        names.push_back(host.name);
  if (names.empty()) {
    deliver(std::move(result));
    return;
  }
  {
    const std::lock_guard lock(target_->mutex);
    target_->actor = caf::actor_cast<discoverer_actor>(self_);
  }
  // Not joined: a name server that does not answer must not delay the end of the job.
  std::thread([target = target_, result = std::move(result), names, is_remote = spec_.is_remote]() mutable {
    pthread_setname_np(pthread_self(), "fd-discovery");
    auto checked = looked_at(std::move(result), names, is_remote);
    const std::lock_guard lock(target->mutex);
    if (target->actor)
      caf::anon_send(target->actor, checked_atom::value, std::move(checked));
  }).detach();
}

void discoverer_state::deliver(discovery_result result) {
  for (const auto& host : result.found.hosts)
    if (remote_.try_emplace(host.name, result.found.remote.contains(host.name)).first->second)
      result.found.remote.insert(host.name);
  self_->send(owner_, std::move(result));
  self_->delayed_send(self_, spec_.interval, run_atom::value);
}

} // namespace farandole
