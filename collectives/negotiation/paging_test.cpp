#include "collectives/negotiation/paging.hpp"

#include <catch2/catch.hpp>

#include "messages/wire/schedule_order.hpp"

using namespace farandole;

namespace {

template <class Part>
void append(std::vector<Part>& to, const std::vector<Part>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

schedule large() {
  schedule whole;
  for (std::uint32_t id = 1; id <= 100; ++id) {
    whole.assignments.push_back({id, "t" + std::to_string(id), -1, 0, {}});
    whole.forget.push_back(id + 1000);
    whole.retract.push_back({id, id});
    whole.failures.push_back({"f" + std::to_string(id), {error_kind::precondition, std::string(200, 'x')}});
    whole.absent.push_back("a" + std::to_string(id));
    whole.ask.push_back(id);
    whole.results.push_back({id, std::vector<std::byte>(100)});
    if (whole.dissolved.size() < bucket_limit)
      whole.dissolved.push_back(id);
    if (whole.buckets.size() < bucket_limit)
      whole.buckets.push_back({id + 200, {2 * id, 2 * id + 1}, std::chrono::milliseconds(10)});
    bundle bundle;
    bundle.sequence = id;
    bundle.entries.resize(1 + id % 7, {id, "", 5, {}, 0});
    whole.bundles.push_back(bundle);
  }
  whole.joined = 3;
  for (std::uint32_t number = 1; number <= 100; ++number) {
    const set_event begins{number + 200, number, false, {0, 1, 2}};
    whole.restarts.push_back({number, begins, std::string(80, 'x')});
  }
  whole.changed = true;
  whole.sets = {{500, 7, false, {0, 1, 2}}, {501, 8, true, {0, 1}}};
  whole.end = true;
  whole.departed = {{1, {departure_kind::script_ended, "", 3}}};
  return whole;
}

const address sender{7, 2, 1, 3};

std::vector<schedule> told(const std::vector<envelope>& messages) {
  std::vector<schedule> all;
  for (const auto& message : messages) {
    CHECK(message.target() == sender.target);
    auto next_schedule = decode_schedule(message, 4);
    INFO((next_schedule ? "" : next_schedule.error().text));
    REQUIRE(next_schedule);
    all.push_back(*std::move(next_schedule));
  }
  return all;
}

} // namespace

TEST_CASE("a large schedule is split into several messages that add up to it when read in order") {
  for (std::size_t limit : {8, 160, 800, 8000}) {
    const auto messages = messages_of(sender, large(), limit);
    CHECK(messages.size() > 1);
    if (limit >= 800)
      for (const auto& message : messages)
        CHECK(message.bytes().size() <= limit);
    const auto parts = told(messages);
    schedule joined;
    std::size_t last_joined = 0, changes = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& part = parts[i];
      // A kind of entry that comes later in a schedule is not followed by an earlier kind.
      CHECK((part.assignments.empty() || joined.bundles.empty()));
      CHECK((part.failures.empty() || joined.bundles.empty()));
      append(joined.assignments, part.assignments);
      append(joined.forget, part.forget);
      append(joined.retract, part.retract);
      append(joined.failures, part.failures);
      append(joined.absent, part.absent);
      append(joined.ask, part.ask);
      append(joined.results, part.results);
      append(joined.bundles, part.bundles);
      append(joined.dissolved, part.dissolved);
      append(joined.buckets, part.buckets);
      append(joined.restarts, part.restarts);
      append(joined.sets, part.sets);
      CHECK((part.joined < 0 || joined.restarts.size() == part.restarts.size()));
      CHECK(part.changed == !part.sets.empty());
      last_joined += part.joined >= 0;
      changes += part.changed;
      CHECK(part.end == (i + 1 == parts.size()));
      CHECK(part.departed.has_value() == part.end);
    }
    CHECK(last_joined == 1);
    CHECK(changes == 1);
    joined.joined = 3;
    joined.changed = true;
    joined.end = true;
    joined.departed = large().departed;
    CHECK(joined == large());
  }
}

TEST_CASE("a schedule that fits is sent as one message") {
  CHECK(told(messages_of(sender, large())) == std::vector{large()});
  CHECK(told(messages_of(sender, schedule{})) == std::vector{schedule{}});
}

TEST_CASE("a schedule that is one byte too large is split, into about as many messages as it needs") {
  const auto size = encode(sender, large()).bytes().size();
  CHECK(messages_of(sender, large(), size).size() == 1);
  CHECK(messages_of(sender, large(), size - 1).size() == 2);
  CHECK(messages_of(sender, large(), size / 4).size() <= 8);
}

TEST_CASE("a list longer than the list limit is split before it is encoded") {
  schedule whole;
  whole.forget.assign((std::size_t{1} << 20) + 1, 5);
  const auto parts = told(messages_of(sender, whole));
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].forget.size() + parts[1].forget.size() == whole.forget.size());
}

TEST_CASE("every list of a schedule counts towards the size limit of one message") {
  schedule whole = large();
  for_each_part(whole, [&](auto tag, auto& part) {
    schedule alone;
    part_of<decltype(tag)::value>(alone) = part;
    if constexpr (requires { part.size(); } && decltype(tag)::value != schedule_part::sets)
      CHECK(messages_of(sender, alone, 1).size() == part.size());
    else if constexpr (decltype(tag)::value == schedule_part::sets) {
      // Set changes are sent at once, in a message after the one that holds the parts before them.
      alone.restarts = {{1, {}, "it broke"}};
      CHECK(messages_of(sender, alone, 1).size() == 2);
    } else
      CHECK(messages_of(sender, alone, 1).size() == 1);
  });
}
