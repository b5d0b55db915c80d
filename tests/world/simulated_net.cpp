#include "tests/world/simulated_net.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "actors/event_loop/link_messages.hpp"
#include "tests/world/later.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t net_stream = 402;
// As in the keep-alive of sockets (collectives/transport/connections/sockets.cpp).
constexpr seconds longest_silence{30};
constexpr seconds connect_timeout{10};
constexpr seconds close_timeout{5};
constexpr milliseconds look_again{250};
constexpr const char* reset = "connection reset by peer";
constexpr const char* connect_timeout_text = " within connect timeout";

} // namespace

struct simulated_net::end {
  process_id process = 0;
  caf::actor owner;
  link_id id = 0;
  caf::actor line;       ///< takes the messages of this end
  bool closing = false;  ///< has requested the end of the link
  bool notified = false; ///< its owner has received link_closed
};

struct simulated_net::wire {
  std::array<end, 2> ends;
  bool broken = false;

  void tell_end(int which, const std::string& reason) {
    auto& entry = ends[static_cast<std::size_t>(which)];
    if (!std::exchange(entry.notified, true))
      caf::anon_send(entry.owner, link_closed{entry.id, reason});
  }
};

/// One direction: a link_actor for the end that sends.
class simulated_net::line {
public:
  using self_ptr = caf::stateful_actor<line>*;

  void begin(self_ptr self, simulated_net& net, std::shared_ptr<wire> which, int from) {
    self_ = self;
    net_ = &net;
    wire_ = std::move(which);
    from_ = from;
    self->monitor(own_end().owner);
    self->set_down_handler([this](const caf::down_msg&) { close(); });
  }

  void send(const envelope& message) {
    if (wire_->broken || own_end().closing || own_end().notified || net_->ended(own_end().process))
      return;
    net_->watcher_.sent(own_end().process, far_end().process, message);
    push(message);
  }

  // The other end closes in turn, after its last message; this end learns of it then.
  void close() {
    if (!wire_->broken && !std::exchange(own_end().closing, true))
      push(std::nullopt);
  }

  // Ends this end at once; its messages and its close still arrive.
  void cut() {
    close();
    wire_->tell_end(from_, "");
  }

  void tick() {
    if (wire_->broken)
      return drop();
    if (net_->is_blocked(own_end().process, far_end().process))
      return wait();
    if (is_stopped(far_end().process))
      return waits_for_other_end() ? wait() : wait_for_process();
    waited_ = {};
    auto value = std::move(queue_.front());
    queue_.pop_front();
    value ? deliver(*value) : last();
  }

private:
  end& own_end() { return wire_->ends[static_cast<std::size_t>(from_)]; }
  end& far_end() { return wire_->ends[static_cast<std::size_t>(1 - from_)]; }

  void push(std::optional<envelope> message) {
    queue_.push_back(std::move(message));
    const auto current_time = self_->clock().now();
    last_ = std::max(last_, current_time + net_->takes(own_end().process, far_end().process));
    self_->delayed_send(self_, last_ - current_time, tick_atom::value);
  }

  void wait() {
    const auto patience = waits_for_other_end() ? close_timeout : longest_silence;
    const auto current_time = self_->clock().now();
    if (!waited_)
      waited_ = current_time;
    if (current_time - *waited_ >= patience)
      return net_->break_wire(*wire_, {}, from_, reset);
    self_->delayed_send(self_, look_again, tick_atom::value);
  }

  bool waits_for_other_end() {
    return own_end().closing && !own_end().notified && !net_->ended(own_end().process);
  }

  bool is_stopped(process_id process) const {
    return net_->world_.all_processes().stopped(process) && !net_->ended(process);
  }

  // The kernel of a stopped process still answers, so the message waits until the process continues.
  void wait_for_process() {
    net_->for_stopped_[far_end().process].push_back(caf::actor_cast<caf::actor>(self_));
  }

  void deliver(const envelope& message) {
    if (net_->ended(far_end().process) || far_end().notified)
      return;
    auto arrived = envelope::parse(message.bytes());
    if (!arrived)
      return net_->watcher_.problem("a message could not be parsed: " + arrived.error().text);
    ++net_->arrived_;
    net_->watcher_.arriving(own_end().process, far_end().process, *arrived);
    if (!wire_->broken && !net_->ended(far_end().process))
      caf::anon_send(far_end().owner, link_received{far_end().id, std::move(*arrived)});
  }

  void last() {
    wire_->tell_end(1 - from_, "");
    caf::anon_send(far_end().line, close_atom::value);
    self_->quit();
  }

  void drop() {
    queue_.clear();
    self_->quit();
  }

  self_ptr self_ = nullptr;
  simulated_net* net_ = nullptr;
  std::shared_ptr<wire> wire_;
  int from_ = 0;
  std::deque<std::optional<envelope>> queue_; ///< an empty entry is the end of the link
  caf::actor_clock::time_point last_{};
  std::optional<caf::actor_clock::time_point> waited_; ///< blocked since
};

class simulated_net::maker final : public link_maker {
public:
  maker(simulated_net& net, process_id process) : net_(net), process_(process) {}

  expected<listening> listen(const std::string& bind_ip, std::uint16_t port, caf::actor owner) override {
    if (port == 0)
      port = net_.next_port_++;
    const auto location = bind_ip + ":" + std::to_string(port);
    auto handshakes = std::make_shared<simulated_listener>(
        net_.options_.handshakes,
        simulated_listener::surroundings{[net = &net_] { return net->world_.now(); },
                                         [net = &net_](duration wait, std::function<void()> action) {
                                           net->later(wait, std::move(action));
                                         }});
    net_.listeners_[location].push_back({process_, owner, handshakes});
    auto handle = net_.system_.spawn([=, net = &net_, process = process_](caf::event_based_actor* self) {
      auto close = [=] {
        std::erase_if(net->listeners_[location],
                      [&](const listener& listener) { return listener.process == process; });
        handshakes->close();
        self->quit();
      };
      self->monitor(owner);
      self->set_down_handler([=](const caf::down_msg&) { close(); });
      return caf::behavior{[=](close_atom) { close(); },
                           [=](const peers_expected& expected_peers) {
                             std::set<std::string> sources;
                             for (const auto& peer : expected_peers.peers)
                               sources.insert(peer.substr(0, peer.rfind(':')));
                             handshakes->expect(std::move(sources));
                           }};
    });
    return listening{port, std::move(handle)};
  }

  void dial(const std::string& ip, std::uint16_t port, caf::actor owner, link_id id) override {
    call call{process_, ip + ":" + std::to_string(port),   std::move(owner), id,
              {},       reconnect_backoff{connect_timeout}};
    net_.later(net_.takes(process_, process_),
               [net = &net_, pending = std::move(call)] { net->connect(pending); });
  }

private:
  simulated_net& net_;
  process_id process_;
};

simulated_net::simulated_net(simulation& world, const net_options& options, net_watcher watcher)
    : world_(world), system_(world.system()), options_(options), watcher_(std::move(watcher)),
      draw_(options.seed, net_stream) {}

simulated_net::~simulated_net() {
  for (auto& wire : wires_)
    if (auto known_wire = wire.lock())
      for (auto& end : known_wire->ends)
        caf::anon_send_exit(end.line, caf::exit_reason::kill);
}

std::shared_ptr<link_maker> simulated_net::links_of(process_id process) {
  return std::make_shared<maker>(*this, process);
}

std::string simulated_net::address_of(process_id process) {
  return "10.0." + std::to_string(process / 256) + "." + std::to_string(process % 256);
}

simulated_net::duration simulated_net::takes(process_id from, process_id to) {
  auto micros = options_.latency_us + draw_.below(options_.jitter_us);
  if (draw_.one_in(options_.delayed))
    micros += draw_.below(options_.delay_us);
  duration all = std::chrono::microseconds(micros);
  const auto more = [&](duration limit) {
    if (limit.count() > 0)
      all += duration(draw_.below(static_cast<std::uint64_t>(limit.count())));
  };
  more(extra_);
  for (const auto rank : {from, to})
    if (const auto slow = slow_.find(rank); slow != slow_.end())
      more(slow->second);
  return all;
}

void simulated_net::later(duration when, std::function<void()> action) {
  testing::later(world_, no_process, when, std::move(action));
}

void simulated_net::fail(const call& call, const std::string& reason, bool untrusted) {
  caf::anon_send(call.owner, link_closed{call.id, reason, untrusted});
}

void simulated_net::connect(call call) {
  if (ended(call.from))
    return;
  const auto* found = listener_at(call.location);
  if (!found) {
    const auto impostor = impostors_.find(call.location);
    if (impostor != impostors_.end())
      return conclude(std::move(call), impostor->second);
    return fail(call, "connecting to " + call.location + ": connection refused");
  }
  const auto to = found->process;
  const bool blocked = is_blocked(call.from, to) || is_blocked(to, call.from);
  if (!blocked && !world_.all_processes().stopped(to)) {
    const auto verdict = verdict_between(call.from, to);
    return verdict == handshake_verdict::accepted ? shake_hands(std::move(call), *found)
                                                  : conclude(std::move(call), verdict);
  }
  if (call.waited >= connect_timeout)
    return fail(call, blocked ? "connecting to " + call.location + ": timed out"
                              : std::string("no proof of the secret") + connect_timeout_text);
  call.waited += look_again;
  later(look_again, [this, pending = std::move(call)] { connect(pending); });
}

const simulated_net::listener* simulated_net::listener_at(const std::string& location) {
  auto& all = listeners_[location];
  std::erase_if(all, [&](const listener& listener) { return ended(listener.process); });
  if (all.empty())
    return nullptr;
  return &all[all.size() == 1 ? 0 : draw_.below(all.size())];
}

void simulated_net::open(const call& call, const listener& to) {
  const running_process network(world_.all_processes(), no_process);
  linked_.insert(call.from);
  auto made = std::make_shared<wire>();
  made->ends[0] = {call.from, call.owner, call.id, {}};
  made->ends[1] = {to.process, to.owner, next_accepted_++, {}};
  for (int i : {0, 1})
    made->ends[static_cast<std::size_t>(i)].line =
        system_.spawn([this, made, i](caf::stateful_actor<line>* self) {
          auto& state = self->state;
          state.begin(self, *this, made, i);
          return caf::behavior{
              [&state](const envelope& message) { state.send(message); },
              [&state](tick_atom) { state.tick(); },
              [&state](close_atom) { state.close(); },
              [&state](cut_atom) { state.cut(); },
          };
        });
  for (int i : {0, 1}) {
    auto& entry = made->ends[static_cast<std::size_t>(i)];
    const auto& other = made->ends[static_cast<std::size_t>(1 - i)];
    caf::anon_send(entry.owner, link_opened{entry.id, entry.line, address_of(other.process) + ":1", i == 1});
  }
  std::erase_if(wires_, [](const auto& entry) { return entry.expired(); });
  wires_.push_back(made);
}

// The end `first` learns of it at once, the other end later.
void simulated_net::break_wire(wire& which, duration late, int first, const std::string& reason) {
  if (std::exchange(which.broken, true))
    return;
  watcher_.broken(which.ends[0].process, which.ends[1].process);
  for (int i : {0, 1}) {
    auto& entry = which.ends[static_cast<std::size_t>(i)];
    caf::anon_send(entry.line, tick_atom::value);
    if (entry.notified)
      continue;
    entry.notified = true;
    auto when = takes(entry.process, entry.process);
    if (i != first && late.count() > 0)
      when += duration(draw_.below(static_cast<std::uint64_t>(late.count())));
    later(when, [owner = entry.owner, id = entry.id, why = i == first ? reason : std::string(reset)] {
      caf::anon_send(owner, link_closed{id, why});
    });
  }
}

void simulated_net::end_process(process_id process) {
  ended_.insert(process);
  for (const auto& [location, all] : std::map(listeners_))
    for (const auto& listener : all)
      if (listener.process == process)
        listener.handshakes->close();
  for (auto& wire : wires_)
    if (auto known_wire = wire.lock())
      for (int i : {0, 1})
        if (known_wire->ends[static_cast<std::size_t>(i)].process == process) {
          // Messages that it has sent may still arrive; then its close arrives.
          caf::anon_send(known_wire->ends[static_cast<std::size_t>(i)].line, close_atom::value);
          known_wire->ends[static_cast<std::size_t>(i)].notified = true;
        }
}

void simulated_net::break_links(process_id a, process_id b, duration late) {
  auto all = wires_;
  for (auto& wire : all)
    if (auto known_wire = wire.lock()) {
      const auto x = known_wire->ends[0].process, y = known_wire->ends[1].process;
      if ((x == a && y == b) || (x == b && y == a))
        break_wire(*known_wire, late, static_cast<int>(draw_.below(2)), reset);
    }
}

void simulated_net::break_links_of(process_id first, process_id other, duration late,
                                   const std::string& reason) {
  auto all = wires_;
  for (auto& wire : all)
    if (auto known_wire = wire.lock()) {
      const auto x = known_wire->ends[0].process, y = known_wire->ends[1].process;
      if ((x == first && y == other) || (x == other && y == first))
        break_wire(*known_wire, late, x == first ? 0 : 1, reason);
    }
}

void simulated_net::proceed(process_id process) {
  for (const auto& line : std::exchange(for_stopped_[process], {}))
    caf::anon_send(line, tick_atom::value);
}

void simulated_net::block(process_id from, process_id to, bool blocked) {
  if (blocked)
    blocked_.insert({from, to});
  else
    blocked_.erase({from, to});
}

} // namespace farandole::testing
