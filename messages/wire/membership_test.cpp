#include <catch2/catch.hpp>

#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "messages/wire/membership.hpp"
#include "messages/wire/travelled_testing.hpp"

namespace {

using namespace farandole;

constexpr address somewhere{2, 0, -1};

hello sound_hello() {
  return {wire_version, 3, 4, "boot-1:ipc:net", "alpha", "127.0.0.1:4567", 1234, 6, 12, false, {}};
}

welcome sound_welcome() {
  welcome value;
  value.generation = 2;
  value.epoch = 5;
  value.rank = 1;
  value.members = {{0, 0, "h0", "alpha", "10.0.0.1:1", 0, 2, 0, 2},
                   {1, 3, "h0", "alpha", "10.0.0.1:2", 1, 2, 0, 1},
                   {2, 2, "h1", "beta", "10.0.0.2:1", 0, 1, 1, 2}};
  value.settings = {{"fusion threshold", "134217728"}, {"board", ""}};
  value.must_sync = false;
  value.joined_late = true;
  return value;
}

member_path_addresses sound_member_path_addresses() {
  return {{{0, {{"local", "window-0"}}},
           {1, {{"ucx", std::string("\0\1\xff", 3)}, {"gloo", std::string("\2\0", 2)}}}}};
}

template <class Spoil>
std::string complaint(Spoil spoil) {
  auto value = sound_welcome();
  spoil(value);
  auto result = decode_welcome(travelled(encode(somewhere, value)));
  return result ? std::string{} : result.error().text;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a hello arrives as it was sent") {
  auto received = decode_hello(travelled(encode(somewhere, sound_hello())));
  REQUIRE(received);
  CHECK(*received == sound_hello());
}

TEST_CASE("a list of missing members arrives as it was sent, and is checked") {
  const awaited sent{15, 2, 5, true, {{1, "alpha"}, {3, ""}}};
  const auto received = decode_awaited(travelled(encode(somewhere, sent)));
  REQUIRE(received);
  CHECK(*received == sent);
  const auto complaint_about = [](awaited value) {
    const auto result = decode_awaited(travelled(encode(somewhere, value)));
    return result ? std::string() : result.error().text;
  };
  CHECK(holds(complaint_about({1, 1, 3, false, {{2, ""}, {1, ""}}}), "not ascending"));
  CHECK(holds(complaint_about({1, 1, 3, false, {{-1, ""}}}), "not ascending"));
  CHECK(holds(complaint_about({1, 1, 0xffffffff, false, {}}), "size is out of range"));
}

TEST_CASE("a hello in another wire version is read no further than the version") {
  auto value = sound_hello();
  value.wire_version = wire_version + 1;
  value.size = -4;
  auto received = decode_hello(travelled(encode(somewhere, value)));
  REQUIRE(received);
  CHECK(received->wire_version == wire_version + 1);
  CHECK(received->host.empty());
}

TEST_CASE("a hello out of range is refused") {
  auto refuses = [](auto spoil) {
    auto value = sound_hello();
    spoil(value);
    return !decode_hello(encode(somewhere, value));
  };
  CHECK(refuses([](hello& h) { h.slot = -1; }));
  CHECK(refuses([](hello& h) { h.slot = member_limit; }));
  CHECK(refuses([](hello& h) { h.size = 0; }));
  CHECK(refuses([](hello& h) { h.size = member_limit + 1; }));
  CHECK(refuses([](hello& h) { h.address.assign(5000, 'x'); }));
}

TEST_CASE("a welcome arrives as it was sent") {
  auto received = decode_welcome(travelled(encode(somewhere, sound_welcome())));
  REQUIRE(received);
  CHECK(*received == sound_welcome());
}

TEST_CASE("a welcome that breaks a rule is refused, and the text names the rule") {
  CHECK(complaint([](welcome&) {}).empty());
  CHECK(holds(complaint([](welcome& w) { w.generation = 0; }), "generations"));
  CHECK(holds(complaint([](welcome& w) { w.rank = 3; }), "rank"));
  CHECK(holds(complaint([](welcome& w) { w.rank = -1; }), "rank"));
  CHECK(holds(complaint([](welcome& w) { w.members.clear(); }), "members"));
  CHECK(holds(complaint([](welcome& w) { w.members[2].slot = -1; }), "slot"));
  CHECK(holds(complaint([](welcome& w) { w.members[0].host.assign(5000, 'h'); }), "too long"));
  CHECK(holds(complaint([](welcome& w) { w.members[1].address.assign(5000, 'a'); }), "too long"));
  CHECK(holds(complaint([](welcome& w) { w.settings[0].value.assign(5000, 'v'); }), "too long"));
  CHECK(holds(complaint([](welcome& w) { w.settings.resize(5000); }), "too many settings"));
}

TEST_CASE("one encoding of the roster serves the welcomes of all members") {
  const auto whole = sound_welcome();
  const auto encoded = encode(static_cast<const roster&>(whole));
  for (std::int32_t rank : {0, 2}) {
    auto expected = whole;
    expected.rank = rank;
    expected.joined_late = rank == 2;
    const auto received = decode_welcome(travelled(encode_welcome(somewhere, rank, rank == 2, encoded)));
    REQUIRE(received);
    CHECK(*received == expected);
  }
}

TEST_CASE("members on one host cost little more than their addresses") {
  auto many = sound_welcome();
  for (std::int32_t i = 0; i < 1000; ++i)
    many.members.push_back(many.members[0]);
  const auto more = encode(static_cast<const roster&>(many)).size() -
                    encode(static_cast<const roster&>(sound_welcome())).size();
  CHECK(more <= 1000 * (2 * sizeof(capnp::word) + 16));
}

TEST_CASE("an invalid roster is refused") {
  const auto refusal = [](std::span<const std::byte> bytes) {
    const auto received = decode_welcome(travelled(encode_welcome(somewhere, 1, false, bytes)));
    return received ? std::string{} : received.error().text;
  };
  const auto encoded = encode(static_cast<const roster&>(sound_welcome()));
  REQUIRE(refusal(encoded).empty());
  CHECK(holds(refusal({}), "whole words"));
  CHECK(holds(refusal(std::span(encoded).first(encoded.size() - 3)), "whole words"));
  CHECK_FALSE(refusal(std::span(encoded).first(8)).empty());
  CHECK_FALSE(refusal(std::span(encoded).first(encoded.size() / 16 * 8)).empty());
}

TEST_CASE("a member on a host that is not listed is refused, and so are hosts that take too much room") {
  const auto refusal = [](kj::uint hosts, kj::uint place, kj::uint members, std::size_t name) {
    capnp::MallocMessageBuilder builder;
    auto to = builder.initRoot<wire::Roster>();
    to.setGeneration(1);
    auto table = to.initHosts(hosts);
    for (auto entry : table)
      entry.setIdentity(std::string(name, 'h').c_str());
    for (auto initMember : to.initMembers(members))
      initMember.setHost(place);
    const auto words = capnp::messageToFlatArray(builder);
    const auto bytes = std::as_bytes(std::span(words.begin(), words.size()));
    const auto received = decode_welcome(travelled(encode_welcome(somewhere, 0, false, bytes)));
    return received ? std::string{} : received.error().text;
  };
  CHECK(refusal(1, 0, 2, 10).empty());
  CHECK(holds(refusal(1, 1, 2, 10), "not listed"));
  CHECK(holds(refusal(3, 0, 2, 10), "number of members"));
  CHECK_THAT(refusal(1, 0, 20'000, 4000), Catch::Contains("too long"));
}

TEST_CASE("short membership messages arrive as they were sent") {
  auto loss = decode_lost(travelled(encode(somewhere, lost{9, 2, "was killed by signal 9"})));
  REQUIRE(loss);
  CHECK(*loss == lost{9, 2, "was killed by signal 9"});
  auto refusal = decode_refused(travelled(encode(somewhere, refused{"the job has ended", true})));
  REQUIRE(refusal);
  CHECK(*refusal == refused{"the job has ended", true});
  auto told = decode_changed(travelled(encode(somewhere, changed{3, 2, true})));
  REQUIRE(told);
  CHECK(*told == changed{3, 2, true});
  CHECK_FALSE(decode_changed(travelled(encode(somewhere, changed{3, 0, true}))));
  const farewell left{9, {3, {departure_kind::uncaught_exception, "ValueError: no", 5}}, true};
  auto leave = decode_farewell(travelled(encode(somewhere, left)));
  REQUIRE(leave);
  CHECK(*leave == left);
  auto call = decode_greeting(travelled(encode(somewhere, greeting{wire_version, 65535})));
  REQUIRE(call);
  CHECK(*call == greeting{wire_version, 65535});
}

TEST_CASE("path addresses arrive as they were sent, with any bytes in an address") {
  auto addresses =
      decode_path_addresses(travelled(encode(somewhere, sound_member_path_addresses().members[1])));
  REQUIRE(addresses);
  CHECK(*addresses == sound_member_path_addresses().members[1]);
  auto all = decode_member_path_addresses(travelled(encode(somewhere, sound_member_path_addresses())));
  REQUIRE(all);
  CHECK(*all == sound_member_path_addresses());
}

TEST_CASE("path addresses out of order or too long are refused") {
  auto value = sound_member_path_addresses();
  std::swap(value.members[0], value.members[1]);
  CHECK_FALSE(decode_member_path_addresses(encode(somewhere, value)));
  const auto refused = [](path_addresses wrong) { return !decode_path_addresses(encode(somewhere, wrong)); };
  CHECK(refused({-1, {}}));
  CHECK(refused({0, {{std::string(5000, 'p'), ""}}}));
  CHECK(refused({0, {{"ucx", std::string(path_address_limit_bytes + 1, 'u')}}}));
  CHECK_FALSE(refused({0, {{"ucx", std::string(path_address_limit_bytes, 'u')}}}));
}

TEST_CASE("path addresses that name a path twice, or too many paths, are refused") {
  CHECK_FALSE(decode_path_addresses(encode(somewhere, path_addresses{0, {{"tcp", "a"}, {"tcp", "b"}}})));
  path_addresses many;
  for (std::size_t i = 0; i < path_limit; ++i)
    many.paths.push_back({"path-" + std::to_string(i), "x"});
  CHECK(decode_path_addresses(encode(somewhere, many)));
  many.paths.push_back({"one too many", "x"});
  CHECK_FALSE(decode_path_addresses(encode(somewhere, many)));
}

TEST_CASE("the address of a path that a member did not send is empty") {
  const auto entry = sound_member_path_addresses().members[1];
  CHECK(entry.address_of("gloo") == std::string("\2\0", 2));
  CHECK(entry.address_of("tcp") == "");
}

TEST_CASE("ranks out of range are refused in losses and greetings") {
  CHECK_FALSE(decode_lost(encode(somewhere, lost{1, -2, ""})));
  CHECK_FALSE(decode_lost(encode(somewhere, lost{1, member_limit, ""})));
  CHECK(decode_lost(encode(somewhere, lost{1, -1, ""})));
  CHECK_FALSE(decode_greeting(encode(somewhere, greeting{wire_version, -1})));
}

TEST_CASE("a reason over the limit is cut, not refused") {
  auto received = decode_refused(encode(somewhere, refused{std::string(100'000, 'r')}));
  REQUIRE(received);
  CHECK(received->reason == std::string(65'536, 'r'));
}

TEST_CASE("every decoder refuses every other kind of message") {
  std::vector<envelope> all = {
      encode(somewhere, sound_hello()),    encode(somewhere, sound_welcome()),
      encode(somewhere, lost{}),           encode(somewhere, refused{}),
      encode(somewhere, farewell{}),       encode(somewhere, greeting{}),
      encode(somewhere, path_addresses{}), encode(somewhere, sound_member_path_addresses())};
  int accepted = 0;
  for (const auto& message : all) {
    accepted += static_cast<bool>(decode_hello(message));
    accepted += static_cast<bool>(decode_welcome(message));
    accepted += static_cast<bool>(decode_lost(message));
    accepted += static_cast<bool>(decode_refused(message));
    accepted += static_cast<bool>(decode_farewell(message));
    accepted += static_cast<bool>(decode_greeting(message));
    accepted += static_cast<bool>(decode_path_addresses(message));
    accepted += static_cast<bool>(decode_member_path_addresses(message));
  }
  CHECK(accepted == 8);
}

TEST_CASE("kept process sets arrive in hellos and welcomes as they were sent") {
  auto greeting = sound_hello();
  greeting.keeps_sets = true;
  greeting.state_generation = 7;
  greeting.sets = {{{0, false, 1}, 1, {0, 7}}, {{0, true, 0}, 2, {}}, {{9, false, 4}, 8, {3}}};
  auto received_hello = decode_hello(travelled(encode(somewhere, greeting)));
  REQUIRE(received_hello);
  CHECK(*received_hello == greeting);
  auto told = sound_welcome();
  told.sets_kept = true;
  told.sets = {{{0, false, 1}, 1, {0, 2}}, {{0, true, 0}, 2, {}}};
  auto received = decode_welcome(travelled(encode(somewhere, told)));
  REQUIRE(received);
  CHECK(*received == told);
}

TEST_CASE("process sets of many members arrive as they were sent") {
  auto value = sound_hello();
  value.keeps_sets = true;
  value.sets = {{{0, false, 0}, 1, std::vector<std::int32_t>(20'000)}};
  std::iota(value.sets[0].members.begin(), value.sets[0].members.end(), 0);
  const auto received = decode_hello(travelled(encode(somewhere, value)));
  REQUIRE(received);
  CHECK(*received == value);
}

TEST_CASE("process sets of a welcome that break a rule are refused, and the text names the rule") {
  const auto complains = [](std::vector<kept_set> sets) {
    return complaint([&](welcome& w) { w.sets = std::move(sets); });
  };
  CHECK(holds(complains({{{}, 0, {0}}}), "id of a process set"));
  CHECK(holds(complains({{{}, 1025, {0}}}), "id of a process set"));
  CHECK(holds(complains({{{}, 2, {0}}, {{}, 2, {1}}}), "ids of process sets"));
  CHECK(holds(complains({{{}, 1, {0, 3}}}), "members of a process set"));
  CHECK(holds(complains({{{}, 1, {-1}}}), "members of a process set"));
  CHECK(holds(complains({{{}, 1, {1, 1}}}), "members of a process set"));
  CHECK(holds(complains({{{}, 1, {}}}), "no members"));
  CHECK(holds(complains({{{0, true, 0}, 1, {0}}}), "and a rule"));
  CHECK(holds(complains({{{1, true, 0}, 1, {}}}), "only init()"));
  CHECK(holds(complains(std::vector<kept_set>(1025, kept_set{{}, 1, {0}})), "too many process sets"));
}
