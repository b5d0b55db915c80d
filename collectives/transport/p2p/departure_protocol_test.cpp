#include "collectives/transport/p2p/departure_protocol.hpp"

#include <catch2/catch.hpp>

#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;
using namespace std::chrono_literals;

namespace {

/// Rank 0 of four members, whose global ranks are 10 to 13.
struct departure_of_four : departure_protocol {
  explicit departure_of_four(const departure_times& times = {})
      : departure_protocol("tcp", {10, 11, 12, 13}, times) {
    meet(0, 4);
  }
  void hear_from(std::int32_t source, const goodbye& message) { receive_goodbye(source, message.encode()); }
};

using ranks = std::vector<std::int32_t>;

} // namespace

TEST_CASE("departure: the first culprit is kept, but a goodbye overrides a guess from a closed connection") {
  departure_of_four self;
  self.lose_connection(1, "it has closed the connection");
  CHECK(self.guessed());
  self.lose_connection(2, "it has closed the connection");
  CHECK(self.failure().kind == error_kind::disconnected);
  CHECK(self.failure().text == "rank 11 is lost to the tcp path: it has closed the connection");
  self.hear_from(1, {3, {}});
  CHECK_FALSE(self.guessed());
  CHECK(self.failure().text == "rank 13 is lost to the tcp path: rank 11 has lost it");
  self.hear_from(2, {2, {}});
  self.accuse(1, "it sent nonsense");
  self.settle();
  CHECK(self.culprit() == 3);
  CHECK(self.failure().text == "rank 13 is lost to the tcp path: rank 11 has lost it");
}

TEST_CASE("departure: a member whose goodbye names itself becomes the culprit") {
  departure_of_four self;
  self.hear_from(2, {2, {}});
  CHECK(self.failure().text == "rank 12 is lost to the tcp path: it gave the operation up");
}

TEST_CASE("departure: a guess that no goodbye corrects names all members with closed connections") {
  departure_protocol self{"ucx", {}};
  self.meet(0, 4);
  self.lose_message(1, "Connection reset");
  self.lose_connection(2, "Endpoint is not connected");
  REQUIRE(self.guessed());
  self.settle();
  CHECK_FALSE(self.guessed());
  CHECK(self.failure().text == "rank 1, rank 2 are lost to the ucx path: Connection reset");
}

TEST_CASE("departure: a guess leaves out the members that have left in order") {
  departure_of_four self;
  self.hear_from(2, {});
  self.lose_connection(2, "it has closed the connection");
  CHECK_FALSE(self.failure());
  self.lose_connection(1, "it has closed the connection");
  self.settle();
  CHECK(self.failure().text == "rank 11 is lost to the tcp path: it has closed the connection");
}

TEST_CASE("departure: a member that leaves in order becomes the culprit only if it is still required") {
  departure_of_four self;
  self.require(1);
  self.hear_from(1, {});
  CHECK_FALSE(self.failure());
  self.require(2);
  CHECK_FALSE(self.failure());
  const bool message_failed = GENERATE(true, false);
  message_failed ? self.lose_message(1, "Connection reset") : self.require(1);
  CHECK_FALSE(self.guessed());
  CHECK(self.failure().text == "rank 11 is lost to the tcp path: it has left the job");
}

TEST_CASE("departure: a guess becomes certain when the member's orderly goodbye arrives") {
  departure_of_four self;
  self.lose_message(1, "Connection reset");
  self.hear_from(2, {});
  CHECK(self.guessed());
  self.hear_from(1, {});
  CHECK_FALSE(self.guessed());
  CHECK(self.failure().text == "rank 11 is lost to the tcp path: it has left the job");
}

TEST_CASE("departure: a member that fails by itself names itself as the culprit") {
  departure_of_four self;
  self.fail({error_kind::timed_out, "late"});
  self.fail({error_kind::unknown, "later"});
  self.lose_connection(1, "it has closed the connection");
  CHECK(self.failure().text == "late");
  CHECK(self.culprit() == 0);
  CHECK(self.leave().message.culprit == 0);
}

TEST_CASE(
    "departure: goodbyes of unknown ranks are ignored, and an invalid goodbye makes its sender the culprit") {
  departure_of_four self;
  for (const std::int32_t source : {-1, 0, 4, 65535})
    self.hear_from(source, {3, {}});
  CHECK_FALSE(self.failure());

  const auto refused = GENERATE(values<goodbye>({{4, {}},
                                                 {-2, {}},
                                                 {-1, {4, message_phase::tree, true, 1}},
                                                 {-1, {-2, message_phase::tree, true, 1}},
                                                 {-1, {1, static_cast<message_phase>(7), true, 1}}}));
  self.hear_from(2, refused);
  CHECK(self.failure().text == "rank 12 is lost to the tcp path: it sent a malformed goodbye");
}

TEST_CASE("departure: bytes of a wrong length, without the mark or with unused bits set are not a goodbye") {
  const auto whole = goodbye{1, {2, message_phase::gather, true, 77}}.encode();
  REQUIRE(goodbye::decode(whole, 4)->awaited == awaited_message{2, message_phase::gather, true, 77});
  REQUIRE(goodbye::decode(whole, 4)->culprit == 1);
  CHECK_FALSE(goodbye::decode(std::span{whole}.first(whole.size() - 1), 4));
  CHECK_FALSE(goodbye::decode({}, 4));
  for (const std::size_t at :
       {std::size_t{13}, std::size_t{14}, std::size_t{15}, std::size_t{20}, whole.size() - 1}) {
    auto changed = whole;
    changed[at] ^= std::byte{0x80};
    CHECK_FALSE(goodbye::decode(changed, 4));
  }
}

TEST_CASE("departure: only the first goodbye of a member counts") {
  departure_of_four self;
  self.hear_from(1, {});
  self.hear_from(1, {3, {}});
  CHECK_FALSE(self.failure());
}

TEST_CASE("departure: a member that leaves in order sends its goodbye to all remaining members") {
  departure_of_four self({1ms, 2ms, 3ms});
  self.hear_from(3, {});
  const goodbye_round last_round = self.leave();
  CHECK(last_round.message.culprit == goodbye::in_order);
  CHECK(last_round.recipients == ranks{1, 2});
  CHECK(last_round.patience == 3ms);
  CHECK(self.failure().kind == error_kind::disconnected);
  CHECK(self.failure().text == "the tcp path is closed");
  // Later events of the other members are no failures of theirs.
  self.lose_connection(1, "it has closed the connection");
  self.hear_from(2, {1, {}});
  CHECK_FALSE(self.guessed());
  CHECK(self.failure().text == "the tcp path is closed");
  CHECK(self.all_departed());
}

TEST_CASE("departure: a member that fails sends no goodbye to the culprit or to members that are gone") {
  departure_of_four self({1ms, 2ms, 3ms});
  CHECK_FALSE(self.all_departed());
  self.lose_connection(2, "it has closed the connection");
  self.accuse(3, "it sent nonsense");
  const goodbye_round last_round = self.leave({1, message_phase::tree, true, 9});
  CHECK(last_round.message.culprit == 3);
  CHECK(last_round.message.awaited == awaited_message{1, message_phase::tree, true, 9});
  CHECK(last_round.recipients == ranks{1});
  CHECK(last_round.patience == 2ms);
}

TEST_CASE("departure: a culprit with an awaited message gets a goodbye, so that both compare the lengths") {
  departure_of_four self;
  self.hear_from(1, {1, {0, message_phase::exchange, true, 16}});
  CHECK(self.leave({1, message_phase::exchange, false, 14}).recipients == ranks{1, 2, 3});
}

TEST_CASE("departure: the error names the sender if two members disagree about a message's length") {
  departure_of_four self;
  self.fail({error_kind::timed_out, "late"});
  self.leave();
  const awaited_message sent{1, message_phase::exchange, false, 14};
  const awaited_message received{2, message_phase::tree, true, 20};
  self.compare_lengths(std::vector{sent, received});
  CHECK(self.failure().text == "late");
  // Messages of other phases, directions or receivers are not compared, and equal lengths are no error.
  self.hear_from(1, {1, {0, message_phase::exchange, false, 16}});
  self.hear_from(3, {3, {0, message_phase::exchange, true, 16}});
  self.compare_lengths(std::vector{sent, received});
  CHECK(self.failure().text == "late");
  SECTION("this member has sent the message") {
    self.compare_lengths(std::vector{sent, awaited_message{3, message_phase::exchange, false, 14}});
    CHECK(self.failure().text == "late; rank 10 sent 14 bytes where 16 were expected");
  }
  SECTION("this member has received the message") {
    self.hear_from(2, {2, {0, message_phase::tree, false, 25}});
    self.compare_lengths(std::vector{sent, received});
    CHECK(self.failure().text == "late; rank 12 sent 25 bytes where 20 were expected");
  }
}

TEST_CASE("departure: a failure takes precedence over an abort, and an abort over the deadline") {
  departure_of_four self;
  abort_token abort;
  const deadline_and_abort deadline{abort, far(), "patience (X) = 1 s"};
  CHECK_FALSE(self.reason_to_stop(deadline, far()));
  constexpr std::chrono::steady_clock::time_point past{};
  CHECK(self.reason_to_stop(deadline, past) ==
        error{error_kind::timed_out, "the tcp path waited in vain: patience (X) = 1 s has passed"});
  CHECK(
      self.reason_to_stop(deadline, past, 2) ==
      error{error_kind::timed_out, "the tcp path waited in vain for rank 12: patience (X) = 1 s has passed"});
  abort.raise();
  CHECK_THAT(self.reason_to_stop(deadline, past).text, Catch::StartsWith("the operation was aborted"));
  self.accuse(1, "it sent nonsense");
  CHECK_THAT(self.reason_to_stop(deadline, past).text, Catch::StartsWith("rank 11 is lost"));
}
