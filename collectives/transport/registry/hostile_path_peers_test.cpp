// Runs the suite of hostile peers against the listeners of data paths, which are open only while members
// connect.
#include <sys/mman.h>
#include <sys/un.h>

#include <future>

#include "collectives/transport/connections/hostile_peers_testing.hpp"
#include "collectives/transport/shm/fd_passing.hpp"
#include "collectives/transport/shm/fd_passing_packets.hpp"
#include "collectives/transport/tcp/tcp_meeting_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

// ---- the data listener ---------------------------------------------------------------------------

/// The listener of rank 0 of three members, in generation 7. One thread drives all members with its own
/// clock.
class attacked_meeting final : public attacked_listener {
public:
  attacked_meeting(job_state state, behaviour) : state_(state), members_(3) {
    for (const attendee& member : members_)
      addresses_.push_back(member.address);
    port_ = listener().port;
    listener().begin(group_of(0, generation), addresses_, secret(),
                     {{.connections = flood_kept, .share = flood_kept, .hello = 10min, .handshake = 10min}});
    if (state_ == job_state::in_handshake) {
      begin(1);
      members_[1].step();
      go_on();
    }
    if (state_ == job_state::joined || state_ == job_state::ending)
      meet(1);
  }

  stranger connect() override { return stranger{port_}; }
  std::vector<std::byte> first_words() override {
    bytes wire;
    REQUIRE(channel_handshake::call(secret(), group_of(2, generation), chunk_suite::aes_128_gcm, 0)
                ->feed({}, wire));
    return wire;
  }
  /// Sends the handshake of a member of the previous generation.
  void lie(const stranger& liar) override {
    impersonate(listener(), liar, group_of(1, generation - 1), secret());
  }
  void go_on() override {
    if (!ended_)
      listener().step(later_);
  }
  void pass_deadlines() override { later_ = 11min; }

  void serve() override {
    if (state_ != job_state::joined)
      meet(1);
    CHECK(listener().met.size() == 1);
  }
  void serve_another() override {
    later_ = {};
    meet(2);
    CHECK(listener().meeting->complete());
  }
  void end() override {
    ended_ = true;
    listener().meeting.reset();
  }

  bool has_logged(const stranger& peer, behaviour reason) override {
    const auto& said = listener().meeting->last_refused();
    const bool named = reason == behaviour::flood || said.find(peer.name()) != std::string::npos;
    return named && said.find(text_of(reason)) != std::string::npos;
  }
  /// The owner of the listener logs one line when all members are connected.
  std::size_t lines_logged() override { return ended_ ? 0 : listener().meeting->refused() > 0; }

private:
  static constexpr std::uint64_t generation = 7;

  static channel_group group_of(std::int32_t rank, std::uint64_t of) { return {of, 3, 0, 3, rank}; }
  static const char* text_of(behaviour reason) {
    switch (reason) {
    case behaviour::silence:
    case behaviour::half_a_hello:
      return "it did not send a TLS hello within 600000 ms";
    case behaviour::garbage:
      return "not a TLS record";
    case behaviour::half_handshake:
      return "no proof of the secret within 600000 ms";
    case behaviour::lie:
      return "generation 6";
    case behaviour::flood:
      return "it did not send a TLS hello within 600000 ms"; // the connections within the limit
    }
    return "";
  }
  attendee& listener() { return members_.front(); }
  void begin(std::size_t rank) {
    auto& member = members_[rank];
    if (!member.meeting)
      member.begin(group_of(static_cast<std::int32_t>(rank), generation), addresses_);
  }
  /// Connects `rank` to rank 0.
  void meet(std::size_t rank) {
    begin(rank);
    const auto end = tcp_meeting::clock::now() + patience;
    while (!listener().meeting->has_met(static_cast<std::int32_t>(rank)) && tcp_meeting::clock::now() < end)
      for (attendee& member : members_)
        if (member.meeting)
          member.step();
    REQUIRE(listener().meeting->has_met(static_cast<std::int32_t>(rank)));
  }

  const job_state state_;
  std::vector<attendee> members_;
  std::vector<std::string> addresses_;
  std::uint16_t port_ = 0;
  std::chrono::milliseconds later_{0};
  bool ended_ = false;
};

// ---- the offer of shared memory ------------------------------------------------------------------

/// The offer of member 0 of three, in generation 4. While members regroup it accepts connections, but is not
/// served.
class attacked_offer final : public attacked_listener {
public:
  attacked_offer(job_state state, behaviour attack) : state_(state) {
    // The hello ends only this attack by its limit. Honest peers that miss the limit call again.
    limits_.hello = attack == behaviour::silence ? std::chrono::nanoseconds(100ms) : 10min;
    limits_.handshake = 10min;
    if (state_ != job_state::regrouping)
      begin_serving();
    if (state_ == job_state::in_handshake) {
      do
        slow_ = std::make_unique<stranger>(connect());
      while (!slow_->try_to_say(asker_.question()) || !slow_->is_answered());
    }
    if (state_ == job_state::joined || state_ == job_state::ending)
      take(1);
  }

  stranger connect() override {
    descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const auto& name = offer_->name();
    name.copy(address.sun_path + 1, name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    return stranger{std::move(socket)};
  }
  std::vector<std::byte> first_words() override { return asker_.question(); }
  /// Sends a member's question, and then returns the offer's own proof.
  void lie(const stranger& liar) override {
    liar.say(asker_.question());
    if (state_ == job_state::regrouping)
      return liar.say(asker_.question()); // the offer does not answer yet
    REQUIRE(liar.ready(POLLIN));
    const auto challenge = liar.hear();
    REQUIRE(challenge.size() == 64);
    liar.say(std::span{challenge}.last(32));
  }
  /// A peer with a valid question has time to send its proof; the offer ends earlier.
  bool refuses(behaviour attack) const override {
    return attack != behaviour::half_handshake && attack != behaviour::flood;
  }

  void serve() override {
    switch (state_) {
    case job_state::regrouping:
      begin_serving();
      return take(1);
    case job_state::hello_awaited:
      return take(1);
    case job_state::in_handshake: {
      const auto proof = asker_.answer(slow_->hear());
      REQUIRE(proof);
      slow_->say(*proof);
      REQUIRE(slow_->ready(POLLIN));
      CHECK(receive_descriptor(slow_->socket.get()));
      return;
    }
    case job_state::joined:
    case job_state::ending:
      return;
    }
  }
  void serve_another() override {
    take(2);
    CHECK_FALSE(served_.get());
  }
  void end() override {
    if (served_.valid()) {
      abort_.raise();
      CHECK(served_.get().kind == error_kind::disconnected);
    }
    offer_.reset();
  }
  bool has_logged(const stranger&, behaviour) override { return true; } // it logs nothing
  std::size_t lines_logged() override { return 0; }

private:
  static fd_passing_terms terms() { return {"a secret of thirty-two bytes ….", 4, 1}; }
  void begin_serving() {
    served_ = std::async(std::launch::async,
                         [this] { return offer_->serve(terms(), memory_.get(), 3, deadline_, limits_); });
  }
  void take(std::uint32_t member) { REQUIRE(take_segment(offer_->name(), terms(), member, deadline_)); }

  const job_state state_;
  handshake_limits limits_;
  std::unique_ptr<segment_offer> offer_ = std::move(*segment_offer::open());
  const std::string name_ = offer_->name();
  const fd_passing_terms terms_ = terms();
  fd_receiver asker_{name_, terms_, 1};
  descriptor memory_{memfd_create("something", MFD_CLOEXEC)};
  abort_token abort_;
  deadline_and_abort deadline_{abort_, std::chrono::steady_clock::now() + 4min, "start timeout (X) = 240 s"};
  std::unique_ptr<stranger> slow_;
  std::future<error> served_;
};

} // namespace

TEST_CASE("the listeners of data paths refuse every hostile peer in every state and serve honest peers",
          "[hostile]") {
  besiege(
      {row_of<attacked_meeting>("the data listener"), row_of<attacked_offer>("the offer of shared memory")});
}
