#include "actors/process_set/announced_operations.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

operation_state_ptr named(const std::string& name, operation kind = operation::allreduce) {
  auto made = operation_state_ptr::make();
  made->name = name;
  made->signature.operation = kind;
  return made;
}

} // namespace

TEST_CASE("an operation is found by its name until it has an id, and by its id from then on") {
  announced_operations table;
  const auto first = named("a");
  table.add(first);
  CHECK(table.assign(7, "b") == nullptr);
  CHECK(table.assign(7, "a") == first.get());
  CHECK(table.assign(7, "a") == first.get());
  CHECK_FALSE(table.take("a"));
  CHECK(table.take(7).get() == first.get());
  CHECK(table.empty());
}

TEST_CASE("an operation with an id is found by the id, or by its name once the leader has asked for it") {
  announced_operations table;
  const auto operation = named("a");
  operation->id = 3;
  table.add(operation);
  CHECK_FALSE(table.take("a"));
  table.add_by_name(table.take(3));
  CHECK_FALSE(table.take(3));
  CHECK(table.take("a").get() == operation.get());
}

TEST_CASE("take_under_any_key finds an operation by its name, with or without an id") {
  announced_operations table;
  const auto operation = named("a");
  operation->id = 3;
  table.add(operation);
  table.add(named("b"));
  CHECK(table.take_under_any_key("a").get() == operation.get());
  CHECK(table.take_under_any_key("b"));
  CHECK_FALSE(table.take_under_any_key("b"));
}

TEST_CASE("a claimed operation leaves the table, and only its runner settles it") {
  announced_operations table;
  table.add(named("a"));
  table.add(named("j", operation::join));
  const auto claimed = table.claim(0, "a");
  REQUIRE(claimed);
  CHECK(claimed->now() == phase::claimed);
  CHECK_FALSE(table.claim(0, "a"));
  CHECK_FALSE(table.claim(4, "a"));
  CHECK(table.take_join()->name == "j");
  CHECK_FALSE(table.take_join());
}

TEST_CASE("an operation that has been settled meanwhile leaves the table, and cannot be claimed") {
  announced_operations table;
  const auto operation = named("a");
  table.add(operation);
  REQUIRE(operation->claim_and_settle(phase::queued, {error_kind::unknown, "the set has failed"}));
  CHECK_FALSE(table.claim(0, "a"));
  CHECK(table.empty());
}

TEST_CASE("at the end of a generation all operations fail with its reason") {
  announced_operations table;
  const auto by_name = named("a");
  const auto by_id = named("b");
  by_id->id = 2;
  table.add(by_name);
  table.add(by_id);
  table.settle_all({error_kind::shut_down, "over"});
  CHECK(table.empty());
  for (const auto& operation : {by_name, by_id}) {
    CHECK(operation->settled());
    CHECK(operation->problem.text == "over");
  }
}
