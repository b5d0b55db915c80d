#include <catch2/catch.hpp>

#include <limits>
#include <random>

#include "messages/wire/negotiation.hpp"
#include "messages/wire/travelled_testing.hpp"

namespace {

using namespace farandole;

constexpr address somewhere{4, 2, 1};

signature matrix() {
  return {operation::allreduce, dtype::float16, reduce_op::average, -1, 0.5, 3.0,
          memory_kind::host,    {128, 3, 0, 7}};
}

requests full_requests() {
  requests value;
  value.ids = {1, 0xffffffff, 17};
  value.full = {{"weights", matrix(), 0, 0}, {"bias \xc3\xa9", {}, 9, 2, true, 3}};
  value.full[1].signature.memory = memory_kind::device;
  value.left = {{5, 1ULL << 40}};
  value.join = true;
  value.leaves = {departure_kind::uncaught_exception, "KeyError: 'labels'", 17};
  value.withdraw = {"gone", std::string(name_limit_bytes, 'n')};
  value.faults = {{1, "it broke"}, {9, ""}};
  value.buckets = {3, 70001};
  value.values = {{17, std::vector<std::byte>(5, std::byte{7})}, {1, {}}};
  return value;
}

schedule full_schedule() {
  schedule value;
  value.assignments = {{3, "weights", -1, 0, matrix()}, {4, "bias", 4096, 256, {}}};
  value.forget = {8};
  value.retract = {{9, 2}};
  value.failures = {{"odd", {error_kind::mismatch, "rank 0 has [2], rank 1 has [3]"}}};
  value.ask = {11, 12};
  bundle sum;
  sum.sequence = 70;
  sum.dtype = dtype::bfloat16;
  sum.reduce_op = reduce_op::max;
  sum.prescale = 0.25;
  sum.memory = memory_kind::device;
  sum.devices = {0, 1, 255};
  sum.ordered = true;
  sum.after = {{2, 5}, {7, 1ULL << 40}};
  sum.entries = {{3, "", 10, {}, 0}, {0, "by name", 0, {}, 0}};
  bundle gather;
  gather.sequence = 71;
  gather.operation = operation::allgather;
  gather.dtype = dtype::boolean;
  gather.entries = {{0, "rows", 12, {2, 0, 1}, 6}};
  bundle spread;
  spread.sequence = 72;
  spread.operation = operation::broadcast;
  spread.root = 40;
  spread.entries = {{6, "", 1, {}, 0}};
  value.bundles = {sum, gather, spread};
  value.joined = 2;
  value.restarts = {{4, set_event{7, 2, false, {0, 2}}, "on rank 2: it broke"},
                    {5, {}, "on rank 0: it broke", true}};
  value.dissolved = {1, 9};
  value.buckets = {{10, {3, 70000}, std::chrono::microseconds(20'500)}, {11, {4}, {}}};
  value.results = {{6, std::vector<std::byte>(12, std::byte{9})}};
  value.end = true;
  value.departed = {{2, {departure_kind::script_ended, "", 1ULL << 40}}};
  return value;
}

// The decoder's error for `value` after `spoil` has changed one field of it.
template <class Spoil>
std::string complaint(schedule value, Spoil spoil) {
  spoil(value);
  auto result = decode_schedule(travelled(encode(somewhere, value)), 3);
  return result ? std::string{} : result.error().text;
}

template <class Spoil>
std::string complaint(requests value, Spoil spoil) {
  spoil(value);
  auto result = decode_requests(travelled(encode(somewhere, value)));
  return result ? std::string{} : result.error().text;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr auto huge = std::numeric_limits<std::int64_t>::max();

} // namespace

TEST_CASE("requests arrive as they were sent") {
  auto message = travelled(encode(somewhere, full_requests()));
  CHECK(message.generation() == 4);
  CHECK(message.set() == 2);
  CHECK(message.source() == 1);
  auto received = decode_requests(message);
  REQUIRE(received);
  CHECK(*received == full_requests());
}

TEST_CASE("empty requests arrive empty") {
  auto received = decode_requests(travelled(encode(somewhere, requests{})));
  REQUIRE(received);
  CHECK(received->empty());
}

TEST_CASE("a schedule arrives as it was sent") {
  auto received = decode_schedule(travelled(encode(somewhere, full_schedule())), 3);
  REQUIRE(received);
  CHECK(*received == full_schedule());
}

TEST_CASE("an empty schedule arrives empty") {
  auto received = decode_schedule(travelled(encode(somewhere, schedule{})), 1);
  REQUIRE(received);
  CHECK(received->empty());
}

TEST_CASE("a bundle states the device of every member of its set, or of none") {
  const auto devices = [](std::vector<std::uint8_t> by_rank) {
    return complaint(full_schedule(), [&](schedule& value) { value.bundles[0].devices = by_rank; });
  };
  CHECK(devices({}).empty());
  CHECK(devices({0, 0, 1}).empty());
  for (const auto& wrong : {std::vector<std::uint8_t>{0, 1}, std::vector<std::uint8_t>{0, 0, 0, 1}})
    CHECK(holds(devices(wrong), "a bundle states the devices of another number of members"));
}

TEST_CASE("the name of an entry that has an id is not sent") {
  schedule value;
  value.bundles.emplace_back().entries = {{3, "known", 10, {}, 0}};
  auto received = decode_schedule(travelled(encode(somewhere, value)), 1);
  REQUIRE(received);
  CHECK(received->bundles[0].entries[0].name.empty());
}

TEST_CASE("one message may be decoded any number of times") {
  schedule value;
  value.bundles.resize(1);
  for (std::uint32_t id = 1; id <= 1000; ++id)
    value.bundles[0].entries.push_back({id, "", 256, {}, 0});
  auto message = encode(somewhere, value);
  for (int i = 0; i < 10'000; ++i)
    REQUIRE(decode_schedule(message, 1000));
}

TEST_CASE("a message of another kind is refused by every decoder") {
  CHECK_FALSE(decode_requests(encode(somewhere, schedule{})));
  CHECK_FALSE(decode_schedule(encode(somewhere, requests{}), 2));
  CHECK_FALSE(decode_requests(envelope{}));
}

TEST_CASE("requests that break a rule are refused, and the text names the rule") {
  auto sound = full_requests();
  CHECK(complaint(sound, [](requests&) {}).empty());
  CHECK(holds(complaint(sound, [](requests& r) { r.ids[1] = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](requests& r) { r.buckets[0] = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](requests& r) { r.buckets.assign(bucket_limit + 1, 1); }), "buckets"));
  CHECK(holds(complaint(sound, [](requests& r) { r.left[0].id = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](requests& r) { r.full[0].name.clear(); }), "a name is empty"));
  CHECK(holds(complaint(sound, [](requests& r) { r.withdraw[0].clear(); }), "a name is empty"));
  CHECK(holds(complaint(sound, [](requests& r) { r.full[1].group_size = 0; }), "group"));
  auto of_signature = [&](auto spoil) {
    return complaint(sound, [&](requests& r) { spoil(r.full[0].signature); });
  };
  CHECK(holds(of_signature([](signature& s) { s.shape = {2, -1}; }), "negative"));
  CHECK(holds(of_signature([](signature& s) { s.shape.assign(dimension_limit + 1, 1); }), "dimensions"));
  CHECK(holds(of_signature([](signature& s) { s.shape = {huge, 2}; }), "counted"));
  CHECK(holds(of_signature([](signature& s) { s.shape = {huge, 0, huge}; }), "counted"));
  CHECK(holds(of_signature([](signature& s) { s.shape = {huge / 2 + 1}; }), "counted"));
  CHECK(of_signature([](signature& s) { s.shape = {huge / 2}; }).empty());
  CHECK(of_signature([](signature& s) { s.shape.assign(dimension_limit, 1); }).empty());
  CHECK(holds(of_signature([](signature& s) { s.root = -2; }), "root"));
  CHECK(holds(of_signature([](signature& s) { s.root = 65536; }), "root"));
  CHECK(holds(of_signature([](signature& s) { s.operation = operation::broadcast; }), "root"));
  CHECK(holds(of_signature([](signature& s) { s.dtype = static_cast<dtype>(dtype_count); }), "dtype"));
  CHECK(holds(of_signature([](signature& s) { s.reduce_op = static_cast<reduce_op>(200); }), "reduce op"));
  CHECK(holds(of_signature([](signature& s) { s.operation = static_cast<operation>(operation_count); }),
              "operation"));
  CHECK(holds(of_signature([](signature& s) { s.memory = static_cast<memory_kind>(memory_kind_count); }),
              "kind of memory"));
}

TEST_CASE("a name over the limit is refused") {
  auto message = envelope::write([](wire::Envelope::Builder root) {
    std::string name(name_limit_bytes + 1, 'n');
    root.initBody().initRequests().initWithdraw(1).set(0, name.c_str());
  });
  auto result = decode_requests(message);
  REQUIRE_FALSE(result);
  CHECK(holds(result.error().text, "longer than 4096"));
}

TEST_CASE("a schedule that breaks a rule is refused, and the text names the rule") {
  auto sound = full_schedule();
  CHECK(complaint(sound, [](schedule&) {}).empty());
  CHECK(holds(complaint(sound, [](schedule& s) { s.assignments[0].id = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.assignments[0].cell = -2; }), "cell"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.assignments[1].cell = huge; }), "cell"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.assignments[1].name.clear(); }), "name"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.forget[0] = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.retract[0].id = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.ask[1] = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.failures[0].reason.kind = error_kind::none; }), "kind"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.failures[0].reason.kind = error_kind{error_kind_count}; }),
              "kind"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.dissolved[1] = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.dissolved.assign(bucket_limit + 1, 1); }), "buckets"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.buckets[0].id = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.buckets[0].ids[1] = 0; }), "an id is 0"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.buckets[0].ids.clear(); }), "a bucket is empty"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.buckets[1].ids[0] = 3; }), "in a bucket twice"));
  CHECK(
      holds(complaint(sound, [](schedule& s) { s.buckets[1].patience = std::chrono::seconds(2); }), "wait"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.buckets.resize(bucket_limit + 1, s.buckets[0]); }),
              "too many buckets"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.results[0].id = 0; }), "id is 0"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.results[0].bytes.resize(inline_limit_bytes + 1); }),
              "larger than 64 KiB"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.joined = 3; }), "joined"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.joined = -2; }), "joined"));
  auto of_entry = [&](std::size_t bundle, auto spoil) {
    return complaint(sound, [&](schedule& s) { spoil(s.bundles[bundle].entries[0]); });
  };
  CHECK(holds(of_entry(0, [](bundle_entry& e) { e.elements = -1; }), "negative"));
  CHECK(holds(of_entry(0, [](bundle_entry& e) { e.elements = huge; }), "counted"));
  CHECK(holds(of_entry(0, [](bundle_entry& e) { e.id = 0; }), "name is empty"));
  CHECK(holds(of_entry(1, [](bundle_entry& e) { e.first_dims.pop_back(); }), "members"));
  CHECK(holds(of_entry(1, [](bundle_entry& e) { e.first_dims.clear(); }), "members"));
  CHECK(holds(of_entry(1, [](bundle_entry& e) { e.first_dims[1] = -1; }), "negative"));
  CHECK(holds(of_entry(1, [](bundle_entry& e) { e.row_elements = -6; }), "negative"));
  CHECK(holds(of_entry(1, [](bundle_entry& e) { e.row_elements = huge; }), "counted"));
  CHECK(holds(of_entry(1, [](bundle_entry& e) { e.first_dims = {huge, 1, 0}; }), "counted"));
  CHECK(holds(complaint(sound, [](schedule& s) { s.bundles[2].root = -1; }), "root"));
}

TEST_CASE("entries whose elements overflow only together are refused") {
  auto text = complaint(schedule{}, [](schedule& s) {
    s.bundles.emplace_back().entries = {
        {1, "", huge / 8, {}, 0}, {2, "", huge / 8, {}, 0}, {3, "", 9, {}, 0}};
  });
  CHECK(holds(text, "counted"));
}

TEST_CASE("an error text over the limit is cut at a character's border") {
  schedule value;
  std::string text((64 << 10) - 1, 'x');
  value.failures = {{"odd", {error_kind::unknown, text + "\xc3\xa9 and more"}}};
  auto received = decode_schedule(encode(somewhere, value), 2);
  REQUIRE(received);
  CHECK(received->failures[0].reason.text == text);
}

TEST_CASE("pointers that share one object cannot expand a small message beyond the limit") {
  // A list of 4,000 names whose pointers all lead to one text of 4,096 bytes: 16 MiB out of 36 KiB.
  constexpr kj::uint copies = 4000;
  auto sent = envelope::write([](wire::Envelope::Builder root) {
    auto list = root.initBody().initRequests().initWithdraw(copies);
    list.set(0, std::string(name_limit_bytes, 'n').c_str());
  });
  std::vector<std::byte> bytes{sent.bytes().begin(), sent.bytes().end()};
  auto word_at = [&](std::size_t index) { return reinterpret_cast<std::uint64_t*>(bytes.data()) + index; };
  std::size_t first = 0; // the pointer to the text: a byte list of 4,097 elements
  while ((*word_at(first) & 3) != 1 || *word_at(first) >> 32 != (4097ULL << 3 | 2))
    ++first;
  auto offset = static_cast<std::uint32_t>(*word_at(first)) >> 2;
  for (std::uint32_t i = 1; i < copies; ++i)
    *word_at(first + i) = (*word_at(first) & ~0xffffffffULL) | ((offset - i) << 2) | 1;
  auto received = envelope::parse(bytes);
  REQUIRE(received);
  auto result = decode_requests(*received);
  REQUIRE_FALSE(result);
  CHECK(holds(result.error().text, "raversal limit"));
}

TEST_CASE("decoders answer messages with flipped bits with a value or an error") {
  auto source = encode(somewhere, full_schedule());
  auto other = encode(somewhere, full_requests());
  std::mt19937 random{20261121};
  int errors = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto& victim = round % 2 ? source : other;
    std::vector<std::byte> bytes{victim.bytes().begin(), victim.bytes().end()};
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0; --flips)
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
    auto message = envelope::parse(bytes);
    if (!message) {
      ++errors;
      continue;
    }
    errors += !decode_schedule(*message, 3);
    errors += !decode_requests(*message);
  }
  CHECK(errors >= 20'000); // each message is refused by the other kind's decoder at least
}
