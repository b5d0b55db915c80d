// Members connect to each other while unauthenticated peers connect to their listeners. One thread drives all
// members with its own clock.
#include "collectives/transport/tcp/tcp_meeting.hpp"

#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "collectives/transport/tcp/tcp_meeting_testing.hpp"

using namespace farandole;

using namespace farandole::testing;

TEST_CASE("meeting: all members of a set connect to each other") {
  for (const std::int32_t size : {1, 2, 5}) {
    gathering set{size};
    set.last_comes();
    REQUIRE(set.meet());
    for (attendee& member : set.members)
      CHECK(member.met.size() == static_cast<std::size_t>(size) - 1);
    const auto& first = set.members.front();
    if (size > 1)
      CHECK(first.met.front().keys.sealing != first.met.front().keys.opening);
  }
}

TEST_CASE(
    "meeting: peers that send nothing, garbage or half a handshake do not keep members from connecting") {
  gathering set{2};
  attendee& listener = set.members.front();
  auto honest = channel_handshake::call(secret(), as_rank_1, chunk_suite::aes_128_gcm, 0);
  bytes hello;
  REQUIRE(honest->feed({}, hello));
  stranger silent{listener.port}, garbage{listener.port}, half{listener.port}, zeros{listener.port},
      recorded{listener.port};
  garbage.say("GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n");
  half.say(std::span{hello}.first(hello.size() / 2));
  zeros.say(bytes(100'000));
  recorded.say(hello); // a recorded hello: the peer cannot continue the handshake
  for (int round = 0; round < 5; ++round)
    listener.step();
  CHECK(garbage.refused());
  CHECK(zeros.refused());
  CHECK_FALSE(silent.refused());
  CHECK_FALSE(half.refused());
  CHECK(listener.meeting->refused() == 2);
  CHECK_THAT(listener.meeting->last_refused(),
             Catch::Contains("127.0.0.1:") && Catch::Contains("not a TLS record"));
  listener.step(std::chrono::seconds{2});
  CHECK(silent.refused());
  CHECK(half.refused());
  CHECK_FALSE(recorded.refused());
  listener.step(std::chrono::seconds{11});
  CHECK(recorded.refused());
  set.last_comes();
  CHECK(set.meet());
}

TEST_CASE("meeting: if silent peers occupy all places, the oldest of them is evicted") {
  gathering set{2, {{.connections = 4, .hello = std::chrono::hours{1}}}};
  attendee& listener = set.members.front();
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int count = 0; count < 50; ++count)
    crowd.push_back(std::make_unique<stranger>(listener.port));
  listener.step();
  CHECK(crowd.front()->refused());
  CHECK_FALSE(crowd.back()->refused());
  set.last_comes();
  CHECK(set.meet());
}

TEST_CASE("meeting: a source that exceeds its share of silent connections loses only its own oldest") {
  gathering set{2, {{.connections = 8, .hello = std::chrono::hours{1}}}};
  attendee& listener = set.members.front();
  stranger other{listener.port, "127.0.0.2"};
  std::vector<std::unique_ptr<stranger>> crowd;
  for (int count = 0; count < 20; ++count)
    crowd.push_back(std::make_unique<stranger>(listener.port));
  listener.step();
  CHECK_FALSE(other.refused());
  CHECK(crowd[15]->refused());
  CHECK_FALSE(crowd[16]->refused());
  CHECK(listener.meeting->refused() == 16);
  CHECK_THAT(listener.meeting->last_refused(), Catch::Contains("more than 4 connections from its address"));
}

TEST_CASE("meeting: a peer that stalls its handshake is evicted in favour of a member") {
  gathering set{2, {{.shaking = 1}}};
  attendee& listener = set.members.front();
  auto honest = channel_handshake::call(secret(), as_rank_1, chunk_suite::aes_128_gcm, 0);
  bytes hello;
  REQUIRE(honest->feed({}, hello));
  stranger holds{listener.port};
  holds.say(hello); // a valid recorded hello, after which nothing follows
  listener.step();
  CHECK_FALSE(holds.hear().empty());
  set.last_comes();
  for (int round = 0; round < 20; ++round)
    for (attendee& member : set.members)
      member.step();
  CHECK_FALSE(set.last().meeting->complete());
  listener.step(std::chrono::milliseconds{1100});
  CHECK(holds.refused());
  CHECK_THAT(listener.meeting->last_refused(), Catch::Contains("and others waited"));
  CHECK(set.meet());
}

TEST_CASE("meeting: without free descriptors the listener pauses, and then accepts connections again") {
  gathering set{2};
  attendee& listener = set.members.front();
  stranger caller{listener.port};
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 3;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  listener.step();
  std::vector<pollfd> polls;
  listener.meeting->watch(polls);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(polls.front().fd == -1);
  listener.step(accept_pause);
  caller.say("nonsense");
  listener.step();
  listener.step();
  CHECK(caller.refused());
  set.last_comes();
  CHECK(set.meet());
}

TEST_CASE("meeting: a member that accepts but does not answer is called again, and the problem is reported") {
  attendee caller, silent;
  caller.begin(as_rank_1, std::vector<std::string>{silent.address, caller.address});
  caller.step();
  caller.step();
  auto first = accept_one(silent.listener.get());
  REQUIRE(first.socket);
  CHECK_FALSE(accept_one(silent.listener.get()).socket);
  CHECK_THAT(caller.meeting->trouble(0), Catch::Contains(silent.address) && Catch::Contains("said nothing"));
  caller.step(std::chrono::seconds{21});
  CHECK_THAT(caller.meeting->trouble(0), Catch::Contains("said nothing within 20 s"));
  caller.step(std::chrono::seconds{22});
  CHECK(accept_one(silent.listener.get()).socket);
  CHECK_FALSE(caller.meeting->take_failure());
}

TEST_CASE("meeting: a wrong secret is refused, and so is the right secret for another generation or set") {
  struct impostor {
    channel_group group;
    std::string_view secret;
    const char* says;
  };
  for (const impostor& attacker : {impostor{as_rank_1, "another secret", "does not know the job's secret"},
                                   impostor{{6, 3, 0, 2, 1}, "the job's secret", "generation 6"},
                                   impostor{{7, 4, 0, 2, 1}, "the job's secret", "another process set"},
                                   impostor{{7, 3, 1, 2, 1}, "the job's secret", "another process set"},
                                   impostor{{7, 3, 0, 3, 2}, "the job's secret", "another process set"}}) {
    gathering set{2};
    attendee& listener = set.members.front();
    stranger caller{listener.port};
    impersonate(listener, caller, attacker.group, secret(attacker.secret));
    CHECK(caller.refused());
    CHECK_THAT(listener.meeting->last_refused(), Catch::Contains(attacker.says));
    CHECK(listener.met.empty());
    set.last_comes();
    CHECK(set.meet());
  }
}

TEST_CASE("meeting: a replayed connection and a second connection of a member are refused") {
  bytes record;
  {
    gathering before{2};
    stranger member{before.members.front().port};
    impersonate(before.members.front(), member, as_rank_1, secret(), &record);
    REQUIRE(before.members.front().met.size() == 1);
  }
  gathering set{3};
  attendee& listener = set.members.front();
  stranger player{listener.port};
  player.say(record);
  for (int round = 0; round < 5; ++round)
    listener.step();
  CHECK(player.refused());
  CHECK(listener.met.empty());
  const channel_group as_rank_2{7, 3, 0, 3, 2};
  stranger member{listener.port}, again{listener.port};
  impersonate(listener, member, as_rank_2, secret());
  REQUIRE(listener.met.size() == 1);
  impersonate(listener, again, as_rank_2, secret());
  CHECK(again.refused());
  CHECK(listener.met.size() == 1);
  CHECK_THAT(listener.meeting->last_refused(), Catch::Contains("has been met already"));
}

TEST_CASE("meeting: a member with a closed listener is lost, and an impersonated member is called again") {
  attendee caller, gone;
  const std::vector<std::string> addresses{gone.address, caller.address};
  gone.listener.close();
  caller.begin(as_rank_1, addresses);
  std::optional<tcp_meeting::failure> failure;
  for (int round = 0; round < 1000 && !failure; ++round) {
    caller.step();
    failure = caller.meeting->take_failure();
  }
  REQUIRE(failure);
  CHECK(failure->rank == 0);
  CHECK(failure->reason == "Connection refused");

  // A peer without the secret has the address. Its answers prove nothing, and cause no loss of a member.
  attendee hopeful, impostor;
  hopeful.begin(as_rank_1, std::vector<std::string>{impostor.address, hopeful.address});
  int answered = 0;
  for (int round = 0; round < 5000 && answered < 3; ++round) {
    hopeful.step();
    if (auto accepted = accept_one(impostor.listener.get()); accepted.socket) {
      constexpr std::string_view alert{"\x15\x03\x03\x00\x02\x02\x28", 7};
      CHECK(::send(accepted.socket.get(), alert.data(), alert.size(), MSG_NOSIGNAL) == 7);
      ++answered;
    }
  }
  CHECK(answered == 3);
  CHECK_FALSE(hopeful.meeting->take_failure());
  CHECK_FALSE(hopeful.meeting->complete());
  CHECK_FALSE(hopeful.meeting->trouble(0).empty());
}
