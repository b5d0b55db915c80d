#include "messages/wire/schedule_order.hpp"

#include <capnp/schema.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "messages/wire/negotiation.capnp.h"

using namespace farandole;

namespace {

/// The fields of a struct in the order of the schema file, not of their numbers.
std::vector<std::string> declared_fields(const capnp::StructSchema& schema) {
  std::vector<std::pair<unsigned, std::string>> fields;
  for (auto field : schema.getFields())
    fields.emplace_back(field.getProto().getCodeOrder(), field.getProto().getName().cStr());
  std::sort(fields.begin(), fields.end());
  std::vector<std::string> names;
  for (auto& [place, name] : fields)
    names.push_back(std::move(name));
  return names;
}

} // namespace

TEST_CASE("the parts of a schedule are applied in the order in which the schema names them") {
  std::vector<std::string> order;
  const auto named = [&order](const char* name) { order.emplace_back(name); };
  schedule plan;
  for_each_part(
      plan, for_parts{
                [&](part_tag<schedule_part::assignments>, std::vector<assignment>&) { named("assignments"); },
                [&](part_tag<schedule_part::dissolved>, std::vector<std::uint32_t>& part) {
                  CHECK(&part == &plan.dissolved);
                  named("dissolved");
                },
                [&](part_tag<schedule_part::forget>, std::vector<std::uint32_t>& part) {
                  CHECK(&part == &plan.forget);
                  named("forget");
                },
                [&](part_tag<schedule_part::retract>, std::vector<fast_path_round>&) { named("retract"); },
                [&](part_tag<schedule_part::failures>, std::vector<failure>&) { named("failures"); },
                [&](part_tag<schedule_part::absent>, std::vector<std::string>&) { named("absent"); },
                [&](part_tag<schedule_part::ask>, std::vector<std::uint32_t>& part) {
                  CHECK(&part == &plan.ask);
                  named("ask");
                },
                [&](part_tag<schedule_part::results>, std::vector<inline_value>& part) {
                  CHECK(&part == &plan.results);
                  named("results");
                },
                [&](part_tag<schedule_part::bundles>, std::vector<bundle>&) { named("bundles"); },
                [&](part_tag<schedule_part::buckets>, std::vector<bucket>&) { named("buckets"); },
                [&](part_tag<schedule_part::joined>, std::int32_t&) { named("joined"); },
                [&](part_tag<schedule_part::restarts>, std::vector<set_restart>&) { named("restarts"); },
                [&](part_tag<schedule_part::sets>, std::vector<set_event>&) { named("sets"); },
                [&](part_tag<schedule_part::changed>, bool& part) {
                  CHECK(&part == &plan.changed);
                  named("changed");
                },
                [&](part_tag<schedule_part::departed>, std::optional<departed_member>&) {
                  named("departedRank");
                  named("departure");
                },
                [&](part_tag<schedule_part::end>, bool& part) {
                  CHECK(&part == &plan.end);
                  named("end");
                },
            });
  CHECK(order == declared_fields(capnp::Schema::from<wire::Schedule>()));
}
