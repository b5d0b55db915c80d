// The link listeners of a rendezvous and of a member's message router, in the suite of hostile peers.
#include "actors/event_loop/link_testing.hpp"
#include "actors/member/message_router.hpp"
#include "actors/rendezvous/rendezvous.hpp"
#include "collectives/transport/connections/hostile_peers_testing.hpp"
#include "messages/wire/drain.hpp"
#include "messages/wire/negotiation.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

/// Shortens the time limit of the hello if the attack must end by it. An honest peer that misses this limit dials again.
/// It would not if its handshake were too slow, so that limit is long.
link_settings limited(link_settings settings, behaviour attack) {
  const bool no_hello = attack == behaviour::silence || attack == behaviour::half_a_hello;
  settings.handshakes.hello = no_hello ? std::chrono::nanoseconds(100ms) : 10min;
  settings.handshakes.handshake = 10min;
  settings.handshakes.connections = settings.handshakes.share = flood_kept;
  settings.close_timeout = 200ms;
  return settings;
}

/// An attacked listener of links: `right` listens, and `left` is the process of honest peers.
class attacked_links : public attacked_listener {
public:
  stranger connect() override { return stranger{port_}; }
  std::vector<std::byte> first_words() override { return hello_of(right.settings); }
  void lie(const stranger& liar) override { send_as_member(liar, lie_); }
  /// listener_test.cpp tests the end of a handshake at its time limit.
  bool refuses(behaviour attack) const override { return attack != behaviour::half_handshake; }
  bool has_logged(const stranger& peer, behaviour reason) override {
    return right.log_lines.wait_for(peer.name(), text_of(reason));
  }
  std::size_t lines_logged() override { return right.log_lines.warnings(); }

protected:
  explicit attacked_links(job_state state, behaviour attack) : state_(state) {
    right.settings = limited(right.settings, attack);
  }
  virtual const char* text_of_lie() const = 0;

  /// Dials a new link and sends `first` over it.
  link_id dial_by(const std::vector<envelope>& first) {
    dial(left.system.get(), "127.0.0.1", port_, left.owner(), ++last_link_, left.settings);
    opened_ = left.next<link_opened>();
    for (const auto& message : first)
      caf::anon_send(opened_.handle, message);
    return last_link_;
  }
  void say(const envelope& message) { caf::anon_send(opened_.handle, message); }

  /// Sends a hello by hand and waits for the answer. Dials again if the hello came too late.
  void begin_handshake() {
    do {
      slow_ = std::make_unique<stranger>(port_);
      slow_tls_ = std::make_unique<tls_session>(right.settings.credentials, tls_side::client);
    } while (!try_to_begin_session(*slow_, *slow_tls_) || !slow_->is_answered());
  }
  void end_handshake(const std::vector<envelope>& first) {
    shake_hands(*slow_, *slow_tls_);
    for (const auto& message : first)
      say_sealed(*slow_, *slow_tls_, message);
  }
  void wait_for_end_of(const caf::actor& owner) {
    right.self->monitor(owner);
    caf::anon_send(caf::actor_cast<message_router_actor>(owner), close_atom::value);
    right.next<caf::down_msg>();
  }

  const job_state state_;
  envelope lie_;
  std::uint16_t port_ = 0;
  link_id last_link_ = 0;
  link_opened opened_; ///< of the last link
  party left, right;

private:
  void send_as_member(const stranger& liar, const envelope& message) {
    tls_session tls{right.settings.credentials, tls_side::client};
    begin_session(liar, tls);
    shake_hands(liar, tls);
    say_sealed(liar, tls, message);
  }
  std::string text_of(behaviour reason) const {
    switch (reason) {
    case behaviour::silence:
    case behaviour::half_a_hello:
      return "it did not send a TLS hello within";
    case behaviour::garbage:
      return "does not speak TLS 1.3";
    case behaviour::lie:
      return text_of_lie();
    case behaviour::flood:
      return "it was silent, and more than";
    case behaviour::half_handshake:
      break;
    }
    return {};
  }

  std::unique_ptr<stranger> slow_;
  std::unique_ptr<tls_session> slow_tls_;
};

// ---- the rendezvous ------------------------------------------------------------------------------

/// The rendezvous of a job of two.
class attacked_rendezvous final : public attacked_links {
public:
  attacked_rendezvous(job_state state, behaviour attack) : attacked_links(state, attack) {
    lie_ = encode(address{}, schedule{});
    rendezvous_options options;
    options.members.size = 2;
    options.links = right.settings;
    options.log = &right.log;
    auto started = start_rendezvous(right.system.get(), options);
    REQUIRE(started);
    service_ = *started;
    port_ = service_.port;
    if (state_ == job_state::in_handshake)
      begin_handshake();
    if (state_ == job_state::joined || state_ == job_state::regrouping || state_ == job_state::ending) {
      join(0);
      join(1);
      await_welcomes();
    }
    if (state_ == job_state::regrouping) {
      say(encode(address{1, 0, 1}, lost{1, 1, "has had enough"}));
      await(wire::Envelope::Body::LOST, 2);
      join(0);
    }
  }

  void serve() override {
    switch (state_) {
    case job_state::hello_awaited:
      join(0);
      join(1);
      return await_welcomes();
    case job_state::in_handshake:
      end_handshake({hello_of_slot(0)});
      join(1);
      return await(wire::Envelope::Body::WELCOME, 1);
    case job_state::regrouping:
      join(1);
      return await_welcomes();
    case job_state::joined:
    case job_state::ending:
      return;
    }
  }
  /// Also checks that no member is lost.
  void serve_another() override {
    dial_by({encode(address{}, drain{wire_version, {0}, {}})});
    await(wire::Envelope::Body::DRAINING, 1);
    CHECK(left.has_none<link_received>());
  }
  void end() override { wait_for_end_of(caf::actor_cast<caf::actor>(service_.actor)); }

private:
  const char* text_of_lie() const override { return "is not for the rendezvous"; }

  static envelope hello_of_slot(std::int32_t slot) {
    hello said;
    said.size = 2;
    said.slot = slot;
    said.host = "a";
    said.address = "127.0.0.1:1";
    return encode(address{}, said);
  }
  void join(std::int32_t slot) { dial_by({hello_of_slot(slot)}); }
  void await_welcomes() { await(wire::Envelope::Body::WELCOME, 2); }
  /// Members that wait may also receive messages about missing members.
  void await(wire::Envelope::Body::Which kind, int count) {
    for (int got = 0; got < count;) {
      const auto heard = left.next<link_received>().message.kind();
      if (heard == wire::Envelope::Body::AWAITED)
        continue;
      REQUIRE(heard == kind);
      ++got;
    }
  }

  rendezvous_service service_;
};

// ---- a member's message router -------------------------------------------------------------------

/// The message router of rank 0, which ranks 1 and 2 dial.
class attacked_router final : public attacked_links {
public:
  attacked_router(job_state state, behaviour attack) : attacked_links(state, attack) {
    lie_ = request_of(1); // without a greeting
    message_router_setup setup;
    setup.member = caf::actor_cast<member_actor>(right.owner());
    setup.links = right.settings;
    setup.log = &right.log;
    router_ = right.system.get().spawn(message_router, std::move(setup));
    auto listening =
        listen(right.system.get(), "127.0.0.1", 0, caf::actor_cast<caf::actor>(router_), right.settings);
    REQUIRE(listening);
    listener_ = listening->handle;
    port_ = listening->port;
    if (state_ != job_state::regrouping)
      enter();
    if (state_ == job_state::in_handshake)
      begin_handshake();
    if (state_ == job_state::joined || state_ == job_state::ending) {
      call(1);
      await_request_of(1);
    }
    if (state_ == job_state::regrouping)
      call(1);
  }

  void serve() override {
    switch (state_) {
    case job_state::hello_awaited:
      call(1);
      break;
    case job_state::in_handshake:
      end_handshake({greeting_of(1), request_of(1)});
      break;
    case job_state::joined:
      say(request_of(1));
      break;
    case job_state::regrouping:
      enter();
      break;
    case job_state::ending:
      return;
    }
    await_request_of(1);
  }
  void serve_another() override {
    call(2);
    await_request_of(2);
    CHECK(right.has_none<peer_gone>());
  }
  void end() override {
    caf::anon_send(listener_, close_atom::value);
    wait_for_end_of(caf::actor_cast<caf::actor>(router_));
  }

private:
  const char* text_of_lie() const override { return "malformed greeting"; }

  static address from(std::int32_t rank) { return {1, 0, rank}; }
  static envelope greeting_of(std::int32_t rank) { return encode(from(rank), greeting{wire_version, rank}); }
  static envelope request_of(std::int32_t rank) {
    requests asked;
    asked.full.push_back({"a", {}, 0, 0});
    return encode(from(rank), asked);
  }
  void call(std::int32_t rank) { dial_by({greeting_of(rank), request_of(rank)}); }
  void await_request_of(std::int32_t rank) { REQUIRE(right.next<envelope>().source() == rank); }
  void enter() {
    const std::vector<std::string_view> hosts{"a", "a", "a"};
    generation_entered entered;
    entered.generation = 1;
    entered.members.resize(hosts.size());
    entered.tree = std::make_shared<relay_tree>(hosts, relay_options{2, 8});
    const auto all = caf::actor_cast<envelope_actor>(right.owner());
    entered.global = {0, {}, all, all, all, all, all};
    caf::anon_send(router_, std::move(entered));
  }

  message_router_actor router_;
  caf::actor listener_;
};

} // namespace

TEST_CASE("a link listener withstands every hostile peer in every state and serves the honest peers",
          "[hostile]") {
  besiege(
      {row_of<attacked_rendezvous>("the rendezvous"), row_of<attacked_router>("a member's message router")});
}
