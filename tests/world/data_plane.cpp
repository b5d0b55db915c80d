#include "tests/world/data_plane.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include "actors/interfaces/lane.hpp"
#include "actors/process_set/set_tree.hpp"
#include "collectives/negotiation/fast_path_memory.hpp"

namespace farandole::testing {

namespace {

constexpr std::uint64_t plane_stream = 403;
// The time in which a path notices by itself that a peer has gone.
constexpr std::uint64_t breaks_after_us = 20'000;
constexpr std::uint64_t ends_after_us = 200;
// The patience of lanes of sets other than the global one, as in set_tree.cpp.
constexpr std::chrono::seconds patience{10};

set_key key_of(const set_setup& setup) {
  auto key = global_set_of(setup.generation, setup.shared->members);
  key.number = setup.set_state->number;
  return key;
}

} // namespace

set_key global_set_of(std::uint64_t generation, const std::vector<member>& members) {
  std::uint64_t hash = members.size();
  for (const auto& member : members)
    for (const unsigned char letter : member.address)
      hash = dice::mixed(hash * 31 + letter);
  return {generation, hash, 0};
}

// Does the work of a lane thread as an actor.
class data_plane::lane_state {
public:
  using self_ptr = caf::stateful_actor<lane_state>*;

  void begin(self_ptr self, data_plane& plane, const set_setup& setup, set_setup::bundle_ended ended,
             process_id process) {
    self_ = self;
    plane_ = &plane;
    setup_ = setup;
    ended_ = std::move(ended);
    process_ = process;
    key_ = key_of(setup);
    const auto ranks = setup.ranks();
    members_ = ranks.size();
    place_ =
        static_cast<std::int32_t>(std::find(ranks.begin(), ranks.end(), setup.shared->rank) - ranks.begin());
    path_addresses addresses;
    addresses.rank = setup.shared->rank;
    self->send(setup.router, encode(address{key_.generation, key_.number, addresses.rank}, addresses));
    self->set_exit_handler([this](const caf::exit_msg& exit_message) {
      give_up({error_kind::shut_down, "Farandole has been shut down; call init() again to go on"});
      self_->quit(exit_message.reason);
    });
  }

  void addresses_exchanged(const envelope& message) {
    auto all = decode_member_path_addresses(message);
    if (!all || all->members.size() != members_)
      return plane_->watcher_.problem("a member received the path addresses of another process set");
    self_->delayed_send(self_, plane_->takes(process_, 2000), ready_atom::value);
  }

  // If a member has gone before all were connected, no member connects.
  void connected() {
    if (aborted_ || dead())
      return;
    if (!plane_->paths_[key_].gone.empty()) {
      return setup_.broke(
          {error_kind::disconnected, "the data paths could not be connected, because a member has left"});
    }
    connected_ = true;
    if (auto fast = plane_->fast_path_of(key_, setup_, place_))
      setup_.set_state->fast_path.set(std::move(fast));
    if (key_.number == 0)
      setup_.shared->heartbeats.set(plane_->words_of(key_, setup_, place_));
    setup_.ready();
    run_next();
  }

  void run(const lane_task_ptr& task) {
    queue_.push_back(std::move(*task));
    if (queue_.size() == 1)
      run_next();
  }

  void moved(const bundle_moved& bundle_moved) {
    if (queue_.empty() || queue_.front()->bundle.sequence != bundle_moved.sequence || aborted_ || dead())
      return;
    if (bundle_moved.well) {
      write(plane_->take(key_, bundle_moved.sequence, place_));
      return finish({});
    }
    const error problem{error_kind::disconnected, "the data path broke"};
    if (key_.number == 0)
      return finish(problem);
    // Another actor knows the reason better, and reports it soon.
    setup_.broke(problem);
    self_->delayed_send(self_, patience, retry_atom::value);
    waiting_ = problem;
  }

  // A path that a waiting member has left is unusable for all members.
  void overdue(const bundle_overdue& bundle_overdue) {
    if (queue_.empty() || queue_.front()->bundle.sequence != bundle_overdue.sequence || aborted_ ||
        waiting_ || dead())
      return;
    const auto ranks = setup_.ranks();
    const error problem{error_kind::timed_out,
                        "the data path waits for other members; " +
                            setup_.settings.cited(setting::operation_timeout) + " has passed" +
                            setup_.shared->silence_notice({ranks.begin(), ranks.end()})};
    plane_->leave(key_, place_, false);
    if (key_.number != 0)
      setup_.broke(problem);
    finish(problem);
  }

  void lose_patience() {
    if (waiting_ && !aborted_ && !queue_.empty())
      finish(waiting_);
  }

  void drain() {
    draining_ = true;
    if (queue_.empty())
      setup_.drained();
  }

  void give_up(const error& reason) {
    if (aborted_)
      return;
    aborted_ = reason;
    plane_->leave(key_, place_, draining_ && queue_.empty());
    while (!queue_.empty())
      finish(reason);
  }

private:
  bool dead() const { return plane_->ended_.contains(process_); }

  void run_next() {
    if (aborted_) {
      while (!queue_.empty())
        finish(aborted_);
      return;
    }
    if (!connected_ || queue_.empty() || dead())
      return;
    plane_->watcher_.ran(key_, place_, static_cast<std::int32_t>(members_), *queue_.front());
    const bundle_overdue limit{queue_.front()->bundle.sequence};
    plane_->arrive(key_, place_, members_, *queue_.front(), caf::actor_cast<caf::actor>(self_));
    if (plane_->heartbeats_)
      self_->delayed_send(self_, setup_.settings.duration(setting::operation_timeout), limit);
  }

  void write(const std::vector<numbers>& result) {
    auto& parts = queue_.front()->bundle.parts;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (parts[i].output)
        std::memcpy(parts[i].output, result[i].data(), result[i].size() * sizeof(std::int64_t));
  }

  void finish(const error& reason) {
    auto done = std::move(queue_.front());
    queue_.pop_front();
    const auto sequence = done->bundle.sequence;
    done->settle(reason);
    ended_(sequence, 0, reason);
    if (aborted_)
      return;
    run_next();
    if (queue_.empty() && draining_)
      setup_.drained();
  }

  self_ptr self_ = nullptr;
  data_plane* plane_ = nullptr;
  set_setup setup_;
  set_setup::bundle_ended ended_;
  process_id process_ = 0;
  set_key key_;
  std::size_t members_ = 1;
  std::int32_t place_ = 0;
  bool connected_ = false;
  bool draining_ = false;
  error aborted_;
  error waiting_;
  std::deque<std::unique_ptr<lane_task>> queue_; ///< the first is running
};

data_plane::data_plane(std::uint64_t seed, bool heartbeats, plane_watcher watcher)
    : heartbeats_(heartbeats), watcher_(std::move(watcher)), draw_(seed, plane_stream) {}

void data_plane::simulate(set_setup& pattern, process_id process) {
  pattern.simulated_connector = [this, process](caf::event_based_actor* parent, const set_setup& setup,
                                                set_setup::bundle_ended ended) {
    auto spawned = parent->spawn([=, this](caf::stateful_actor<lane_state>* self) {
      auto& state = self->state;
      state.begin(self, *this, setup, ended, process);
      return caf::behavior{
          [&state](const envelope& message) { state.addresses_exchanged(message); },
          [&state](ready_atom) { state.connected(); },
          [&state](const lane_task_ptr& task) { state.run(task); },
          [&state](const bundle_moved& bundle_moved) { state.moved(bundle_moved); },
          [&state](const bundle_overdue& bundle_overdue) { state.overdue(bundle_overdue); },
          [&state](retry_atom) { state.lose_patience(); },
          [&state](drained_atom) { state.drain(); },
          [&state](const generation_over& event) { state.give_up(event.reason); },
      };
    });
    const auto ranks = setup.ranks();
    const auto place = std::find(ranks.begin(), ranks.end(), setup.shared->rank) - ranks.begin();
    places_[process].emplace_back(key_of(setup), static_cast<std::int32_t>(place));
    return caf::actor_cast<path_connector_actor>(spawned);
  };
}

std::shared_ptr<shm_fast_path> data_plane::fast_path_of(const set_key& set, const set_setup& setup,
                                                        std::int32_t place) {
  const auto ranks = setup.ranks();
  const auto host_of = [&](std::int32_t rank) {
    return setup.shared->members[static_cast<std::size_t>(rank)].host;
  };
  const bool one_host = std::all_of(
      ranks.begin(), ranks.end(), [&](std::int32_t rank) { return host_of(rank) == host_of(ranks.front()); });
  if (!setup.settings.flag(setting::fast_path) || ranks.size() < 2 || !one_host)
    return nullptr;
  auto& shared = segments_[set];
  if (!shared) {
    segment_layout layout;
    layout.generation = set.generation;
    layout.set = set.number;
    layout.members = static_cast<std::uint32_t>(ranks.size());
    layout.chunk_bytes = 4096;
    const auto memory = fast_path_memory::of(
        static_cast<std::size_t>(setup.settings.integer(setting::fast_path_area)), ranks.size());
    layout.fast_path_bytes = memory.cells_bytes;
    layout.staging_bytes = memory.staging_bytes;
    auto made = shm_segment::create(layout);
    if (!made) {
      watcher_.problem("the shared segment of a fast path could not be created: " + made.error().text);
      return nullptr;
    }
    shared = std::move(*made);
    shared->drop_descriptor();
  }
  constexpr futex_wait never{futex_wait::polling::yielding, std::chrono::microseconds(0), yield_policy(true)};
  return std::make_shared<shm_fast_path>(shared, static_cast<std::uint32_t>(place), never);
}

std::shared_ptr<heartbeat_words> data_plane::words_of(const set_key& set, const set_setup& setup,
                                                      std::int32_t place) const {
  const auto shared = segments_.find(set);
  if (!heartbeats_ || shared == segments_.end())
    return nullptr;
  return std::make_shared<heartbeat_words>(shared->second, static_cast<std::uint32_t>(place), setup.ranks());
}

std::chrono::microseconds data_plane::takes(process_id process, std::uint64_t most_us) {
  const auto slow = slow_.find(process);
  return std::chrono::microseconds((5 + draw_.below(most_us)) * (slow == slow_.end() ? 1 : slow->second));
}

void data_plane::arrive(const set_key& set, std::int32_t place, std::size_t members, const lane_task& task,
                        const caf::actor& lane) {
  auto& entry = paths_[set];
  auto& item = entry.bundles[task.bundle.sequence];
  const auto at = static_cast<std::size_t>(place);
  if (item.lanes.empty()) {
    item.operation = task.bundle.operation;
    item.op = task.bundle.reduce_op;
    item.root = static_cast<std::size_t>(std::max(task.bundle.root, 0));
    item.brought.resize(members);
    item.lanes.resize(members);
    item.notified.resize(members);
  }
  item.lanes[at] = lane;
  for (const auto& part : task.bundle.parts) {
    auto& brought = item.brought[at].emplace_back(part.input_bytes / sizeof(std::int64_t));
    if (part.input)
      std::memcpy(brought.data(), part.input, part.input_bytes);
  }
  ++item.arrived;
  if (!entry.gone.empty() || item.broken)
    return break_bundle(task.bundle.sequence, item);
  if (item.arrived < members)
    return;
  combine(item);
  for (std::size_t i = 0; i < members; ++i)
    caf::delayed_anon_send(item.lanes[i], std::chrono::microseconds(draw_.below(ends_after_us)),
                           bundle_moved{task.bundle.sequence, true});
}

void data_plane::combine(bundle& bundle) {
  if (bundle.operation == operation::broadcast) {
    bundle.result = bundle.brought[bundle.root];
    return;
  }
  bundle.result = bundle.brought.front();
  for (std::size_t member = 1; member < bundle.brought.size(); ++member)
    for (std::size_t part = 0; part < bundle.result.size(); ++part) {
      const auto& more = bundle.brought[member];
      if (part >= more.size() || more[part].size() != bundle.result[part].size())
        return watcher_.problem("members contribute parts of different sizes to the same bundle");
      for (std::size_t i = 0; i < more[part].size(); ++i) {
        auto& sum = bundle.result[part][i];
        sum = bundle.op == reduce_op::max ? std::max(sum, more[part][i]) : sum + more[part][i];
      }
    }
}

std::vector<data_plane::numbers> data_plane::take(const set_key& set, std::uint64_t sequence,
                                                  std::int32_t place) {
  auto& bundles = paths_[set].bundles;
  auto& entry = bundles.at(sequence);
  entry.notified[static_cast<std::size_t>(place)] = true;
  auto result = entry.result;
  if (!entry.broken &&
      std::all_of(entry.notified.begin(), entry.notified.end(), [](bool notified) { return notified; }))
    bundles.erase(sequence);
  return result;
}

void data_plane::break_bundle(std::uint64_t sequence, bundle& bundle) {
  bundle.broken = true;
  for (std::size_t i = 0; i < bundle.lanes.size(); ++i)
    if (bundle.lanes[i] && !bundle.notified[i]) {
      bundle.notified[i] = true;
      const auto after = bundle.result.empty() ? breaks_after_us : ends_after_us;
      caf::delayed_anon_send(bundle.lanes[i], std::chrono::microseconds(draw_.below(after)),
                             bundle_moved{sequence, false});
    }
}

void data_plane::leave(const set_key& set, std::int32_t place, bool in_order) {
  auto& entry = paths_[set];
  if (!entry.gone.insert(place).second)
    return;
  // A bundle that was about to succeed may still succeed on some members and fail on others. A member that
  // leaves in order has already sent all that the others need.
  for (auto& [sequence, bundle] : entry.bundles)
    if (bundle.result.empty() || (!in_order && draw_.one_in(2)))
      break_bundle(sequence, bundle);
}

void data_plane::end_process(process_id process) {
  ended_.insert(process);
  for (const auto& [set, place] : places_[process])
    leave(set, place, false);
}

} // namespace farandole::testing
