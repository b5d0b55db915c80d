#include "tests/world/simulated_net.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "actors/interfaces/link.hpp"

namespace farandole::testing {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t net_stream = 402;
// As the sockets' keep-alive has it (collectives/paths/connections/sockets.cpp).
constexpr seconds longest_silence{30};
constexpr seconds connect_timeout{10};
constexpr seconds close_timeout{5};
constexpr milliseconds look_again{250};
constexpr const char* reset = "connection reset by peer";
constexpr const char* connect_timeout_text = " within connect timeout";

} // namespace

struct simulated_net::end {
  process_id who = 0;
  caf::actor owner;
  link_id id = 0;
  caf::actor line;      ///< takes what this end sends
  bool closing = false; ///< has asked for the end
  bool told = false;    ///< its owner has heard link_closed
};

struct simulated_net::wire {
  std::array<end, 2> ends;
  bool broken = false;

  void tell_end(int which, const std::string& reason) {
    auto& one = ends[static_cast<std::size_t>(which)];
    if (!std::exchange(one.told, true))
      caf::anon_send(one.owner, link_closed{one.id, reason});
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
    self->monitor(mine().owner);
    self->set_down_handler([this](const caf::down_msg&) { close(); });
  }

  void send(const envelope& message) {
    if (wire_->broken || mine().closing || mine().told || net_->ended(mine().who))
      return;
    net_->watcher_.sent(mine().who, other().who, message);
    push(message);
  }

  // The other end closes in turn, behind what it has sent; this one hears of it then.
  void close() {
    if (!wire_->broken && !std::exchange(mine().closing, true))
      push(std::nullopt);
  }

  // This end is over at once; what it has sent, and its end, still arrive.
  void cut() {
    close();
    wire_->tell_end(from_, "");
  }

  void tick() {
    if (wire_->broken)
      return drop();
    if (net_->is_blocked(mine().who, other().who))
      return wait();
    if (is_stopped(other().who))
      return waits_for_other_end() ? wait() : wait_for_process();
    waited_ = {};
    auto what = std::move(queue_.front());
    queue_.pop_front();
    what ? deliver(*what) : last();
  }

private:
  end& mine() { return wire_->ends[static_cast<std::size_t>(from_)]; }
  end& other() { return wire_->ends[static_cast<std::size_t>(1 - from_)]; }

  void push(std::optional<envelope> what) {
    queue_.push_back(std::move(what));
    const auto now = self_->clock().now();
    last_ = std::max(last_, now + net_->takes(mine().who, other().who));
    self_->delayed_send(self_, last_ - now, tick_atom::value);
  }

  void wait() {
    const auto patience = waits_for_other_end() ? close_timeout : longest_silence;
    const auto now = self_->clock().now();
    if (!waited_)
      waited_ = now;
    if (now - *waited_ >= patience)
      return net_->break_wire(*wire_, {}, from_, reset);
    self_->delayed_send(self_, look_again, tick_atom::value);
  }

  bool waits_for_other_end() { return mine().closing && !mine().told && !net_->ended(mine().who); }

  bool is_stopped(process_id who) const {
    return net_->world_.all_processes().stopped(who) && !net_->ended(who);
  }

  // The kernel of a stopped process still answers, so this takes as long as it is stopped.
  void wait_for_process() { net_->for_stopped_[other().who].push_back(caf::actor_cast<caf::actor>(self_)); }

  void deliver(const envelope& message) {
    if (net_->ended(other().who) || other().told)
      return;
    auto arrived = envelope::parse(message.bytes());
    if (!arrived)
      return net_->watcher_.problem("a message was not understood: " + arrived.error().text);
    ++net_->arrived_;
    net_->watcher_.arriving(mine().who, other().who, *arrived);
    if (!wire_->broken && !net_->ended(other().who))
      caf::anon_send(other().owner, link_received{other().id, std::move(*arrived)});
  }

  void last() {
    wire_->tell_end(1 - from_, "");
    caf::anon_send(other().line, close_atom::value);
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
  std::deque<std::optional<envelope>> queue_; ///< nothing: the end
  caf::actor_clock::time_point last_{};
  std::optional<caf::actor_clock::time_point> waited_; ///< blocked since
};

class simulated_net::maker final : public link_maker {
public:
  maker(simulated_net& net, process_id who) : net_(net), who_(who) {}

  expected<listening> listen(const std::string& bind_ip, std::uint16_t port, caf::actor owner) override {
    if (port == 0)
      port = net_.next_port_++;
    const auto where = bind_ip + ":" + std::to_string(port);
    auto handshakes = std::make_shared<simulated_listener>(
        net_.options_.handshakes,
        simulated_listener::surroundings{[net = &net_] { return net->world_.now(); },
                                         [net = &net_](duration wait, std::function<void()> action) {
                                           net->later(wait, std::move(action));
                                         }});
    net_.listeners_[where].push_back({who_, owner, handshakes});
    auto handle = net_.system_.spawn([=, net = &net_, who = who_](caf::event_based_actor* self) {
      auto close = [=] {
        std::erase_if(net->listeners_[where], [&](const listener& one) { return one.who == who; });
        handshakes->close();
        self->quit();
      };
      self->monitor(owner);
      self->set_down_handler([=](const caf::down_msg&) { close(); });
      return caf::behavior{[=](close_atom) { close(); },
                           [=](const peers_expected& what) {
                             std::set<std::string> sources;
                             for (const auto& peer : what.peers)
                               sources.insert(peer.substr(0, peer.rfind(':')));
                             handshakes->expect(std::move(sources));
                           }};
    });
    return listening{port, std::move(handle)};
  }

  void dial(const std::string& ip, std::uint16_t port, caf::actor owner, link_id id) override {
    call what{who_, ip + ":" + std::to_string(port), std::move(owner), id, {}, redial{connect_timeout}};
    net_.later(net_.takes(who_, who_), [net = &net_, what = std::move(what)] { net->connect(what); });
  }

private:
  simulated_net& net_;
  process_id who_;
};

simulated_net::simulated_net(simulation& world, const net_options& options, net_watcher watcher)
    : world_(world), system_(world.system()), options_(options), watcher_(std::move(watcher)),
      draw_(options.seed, net_stream) {}

simulated_net::~simulated_net() {
  for (auto& one : wires_)
    if (auto known = one.lock())
      for (auto& each : known->ends)
        caf::anon_send_exit(each.line, caf::exit_reason::kill);
}

std::shared_ptr<link_maker> simulated_net::links_of(process_id who) {
  return std::make_shared<maker>(*this, who);
}

std::string simulated_net::address_of(process_id who) {
  return "10.0." + std::to_string(who / 256) + "." + std::to_string(who % 256);
}

simulated_net::duration simulated_net::takes(process_id from, process_id to) {
  auto micros = options_.latency_us + draw_.below(options_.jitter_us);
  if (draw_.one_in(options_.delayed))
    micros += draw_.below(options_.delay_us);
  duration all = std::chrono::microseconds(micros);
  const auto more = [&](duration most) {
    if (most.count() > 0)
      all += duration(draw_.below(static_cast<std::uint64_t>(most.count())));
  };
  more(extra_);
  for (const auto who : {from, to})
    if (const auto slow = slow_.find(who); slow != slow_.end())
      more(slow->second);
  return all;
}

void simulated_net::later(duration when, std::function<void()> what) {
  const running_process network(world_.all_processes(), no_process);
  system_.spawn([when, what = std::move(what)](caf::event_based_actor* self) {
    self->delayed_send(self, when, tick_atom::value);
    return caf::behavior{[=](tick_atom) {
      what();
      self->quit();
    }};
  });
}

void simulated_net::fail(const call& what, const std::string& reason, bool untrusted) {
  caf::anon_send(what.owner, link_closed{what.id, reason, untrusted});
}

void simulated_net::connect(call what) {
  if (ended(what.from))
    return;
  const auto* found = whoever_listens(what.where);
  if (!found) {
    const auto impostor = impostors_.find(what.where);
    if (impostor != impostors_.end())
      return conclude(std::move(what), impostor->second);
    return fail(what, "connecting to " + what.where + ": connection refused");
  }
  const auto to = found->who;
  const bool blocked = is_blocked(what.from, to) || is_blocked(to, what.from);
  if (!blocked && !world_.all_processes().stopped(to)) {
    const auto verdict = verdict_between(what.from, to);
    return verdict == handshake_verdict::accepted ? shake_hands(std::move(what), *found)
                                                  : conclude(std::move(what), verdict);
  }
  if (what.waited >= connect_timeout)
    return fail(what, blocked ? "connecting to " + what.where + ": timed out"
                              : std::string("no proof of the secret") + connect_timeout_text);
  what.waited += look_again;
  later(look_again, [this, what = std::move(what)] { connect(what); });
}

const simulated_net::listener* simulated_net::whoever_listens(const std::string& where) {
  auto& all = listeners_[where];
  std::erase_if(all, [&](const listener& one) { return ended(one.who); });
  if (all.empty())
    return nullptr;
  return &all[all.size() == 1 ? 0 : draw_.below(all.size())];
}

void simulated_net::open(const call& what, const listener& to) {
  const running_process network(world_.all_processes(), no_process);
  linked_.insert(what.from);
  auto made = std::make_shared<wire>();
  made->ends[0] = {what.from, what.owner, what.id, {}};
  made->ends[1] = {to.who, to.owner, next_accepted_++, {}};
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
    auto& one = made->ends[static_cast<std::size_t>(i)];
    const auto& other = made->ends[static_cast<std::size_t>(1 - i)];
    caf::anon_send(one.owner, link_opened{one.id, one.line, address_of(other.who) + ":1", i == 1});
  }
  std::erase_if(wires_, [](const auto& one) { return one.expired(); });
  wires_.push_back(made);
}

// `first` hears of it at once, the other one later.
void simulated_net::break_wire(wire& which, duration late, int first, const std::string& reason) {
  if (std::exchange(which.broken, true))
    return;
  watcher_.broken(which.ends[0].who, which.ends[1].who);
  for (int i : {0, 1}) {
    auto& one = which.ends[static_cast<std::size_t>(i)];
    caf::anon_send(one.line, tick_atom::value);
    if (one.told)
      continue;
    one.told = true;
    auto when = takes(one.who, one.who);
    if (i != first && late.count() > 0)
      when += duration(draw_.below(static_cast<std::uint64_t>(late.count())));
    later(when, [owner = one.owner, id = one.id, why = i == first ? reason : std::string(reset)] {
      caf::anon_send(owner, link_closed{id, why});
    });
  }
}

void simulated_net::end_process(process_id who) {
  ended_.insert(who);
  for (const auto& [where, all] : std::map(listeners_))
    for (const auto& one : all)
      if (one.who == who)
        one.handshakes->close();
  for (auto& one : wires_)
    if (auto known = one.lock())
      for (int i : {0, 1})
        if (known->ends[static_cast<std::size_t>(i)].who == who) {
          // What it had sent may still arrive; then its end does.
          caf::anon_send(known->ends[static_cast<std::size_t>(i)].line, close_atom::value);
          known->ends[static_cast<std::size_t>(i)].told = true;
        }
}

void simulated_net::break_links(process_id a, process_id b, duration late) {
  auto all = wires_;
  for (auto& one : all)
    if (auto known = one.lock()) {
      const auto x = known->ends[0].who, y = known->ends[1].who;
      if ((x == a && y == b) || (x == b && y == a))
        break_wire(*known, late, static_cast<int>(draw_.below(2)), reset);
    }
}

void simulated_net::break_links_of(process_id first, process_id other, duration late,
                                   const std::string& reason) {
  auto all = wires_;
  for (auto& one : all)
    if (auto known = one.lock()) {
      const auto x = known->ends[0].who, y = known->ends[1].who;
      if ((x == first && y == other) || (x == other && y == first))
        break_wire(*known, late, x == first ? 0 : 1, reason);
    }
}

void simulated_net::proceed(process_id who) {
  for (const auto& line : std::exchange(for_stopped_[who], {}))
    caf::anon_send(line, tick_atom::value);
}

void simulated_net::block(process_id from, process_id to, bool blocked) {
  if (blocked)
    blocked_.insert({from, to});
  else
    blocked_.erase({from, to});
}

} // namespace farandole::testing
