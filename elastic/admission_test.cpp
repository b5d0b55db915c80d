#include "elastic/admission.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

constexpr membership_rules three{.size = 3, .minimum = 3, .limit = 3};
constexpr membership_rules elastic{.size = 3, .elastic = true, .minimum = 1, .limit = 3};

hello from_slot(std::int32_t slot) {
  hello request;
  request.slot = slot;
  request.size = 3;
  request.host = request.host_name = "a";
  request.process = 700 + slot;
  return request;
}

/// A job whose slots 0, 1 and 2 run as generation 1, by links 100 + slot.
struct running_job {
  slot_table table;
  generation_record current;

  running_job() {
    for (std::int32_t slot = 0; slot < 3; ++slot) {
      table.expect(slot, {});
      table.at(slot).link = static_cast<link_id>(100 + slot);
      table.at(slot).announced = from_slot(slot);
    }
    table.start_generation({0, 1, 2}, true);
    current.start({0, 1, 2}, 0);
  }

  std::string reason(const hello& request, const membership_rules& rules) const {
    const auto refusal = objection(request, rules, table);
    return refusal ? refusal->reason : std::string{};
  }
};

returning from_member(std::int32_t slot) {
  returning request;
  request.generation = 1;
  request.slot = request.rank = slot;
  request.host = "a";
  request.process = 700 + slot;
  return request;
}

} // namespace

TEST_CASE("a hello must name a slot of the job, and the job's size if the size is fixed", "[admission]") {
  running_job job;
  job.table.at(1).link.reset();
  job.table.at(1).in_generation = false;
  CHECK(job.reason(from_slot(1), three).empty());
  auto larger = from_slot(1);
  larger.size = 4;
  CHECK(job.reason(larger, three) == "slot 1 expects 4 members, but the job has 3: check HOROVOD_SIZE");
  CHECK(job.reason(larger, elastic).empty());
  CHECK(job.reason(from_slot(3), three) == "slot 3 is not in 0..2: check HOROVOD_RANK");
  CHECK(job.reason(from_slot(3), elastic) == "slot 3 was not started by this job's launcher");
  auto foreign = from_slot(1);
  foreign.wire_version = wire_version + 1;
  CHECK_THAT(job.reason(foreign, elastic), Catch::StartsWith("wire version "));
}

TEST_CASE("a slot that is taken, or whose member has not come back yet, is refused to another process",
          "[admission]") {
  running_job job;
  CHECK(job.reason(from_slot(1), elastic) == "slot 1 is taken by process 701 on a");
  job.table.at(1).link.reset();
  CHECK(job.reason(from_slot(1), elastic) == "slot 1 is taken by process 701 on a");
  job.table.at(1).in_generation = false;
  CHECK(job.reason(from_slot(1), elastic).empty());
}

TEST_CASE("a slot that was retired is told so, even after its process has ended", "[admission]") {
  running_job job;
  job.table.end_process(1, "exited with code 1");
  CHECK(job.reason(from_slot(1), elastic) == "slot 1 exited with code 1 and cannot come again");
  job.table.at(1).retired = true;
  const auto refusal = objection(from_slot(1), elastic, job.table);
  REQUIRE(refusal);
  CHECK(*refusal == taken_out(1));
  CHECK(refusal->dismissed);
}

TEST_CASE("in a fixed job the first member that ended keeps all others out", "[admission]") {
  running_job job;
  job.table.end_process(2, "exited with code 1");
  job.table.end_process(0, "was killed by signal 9");
  const auto refusal = objection(from_slot(1), three, job.table);
  REQUIRE(refusal);
  CHECK(*refusal == refused{"the job cannot form again: slot 2 exited with code 1", false, 2});
  CHECK(job.reason(from_slot(1), elastic) == "slot 1 is taken by process 701 on a");
}

TEST_CASE("a member resumes only in its own slot, with its own rank, process and host", "[admission]") {
  using kind = return_decision::kind;
  running_job job;
  CHECK(check_return(200, from_member(1), job.table, job.current).result == kind::resumes);
  for (auto change :
       {+[](returning& request) { request.rank = 2; }, +[](returning& request) { request.process = 9; },
        +[](returning& request) { request.host = "b"; }}) {
    auto request = from_member(1);
    change(request);
    const auto decision_on_return = check_return(200, request, job.table, job.current);
    CHECK(decision_on_return.result == kind::turned_away);
    CHECK_THAT(decision_on_return.reason.reason,
               Catch::StartsWith("slot 1 is rank 1 and process 701 on a, not rank "));
  }
}

TEST_CASE("a member that returns to a generation that has ended, or that it left, is told so",
          "[admission]") {
  using kind = return_decision::kind;
  running_job job;
  auto older = from_member(1);
  older.generation = 0;
  CHECK(check_return(200, older, job.table, job.current).result == kind::generation_ended);
  job.table.at(1).in_generation = false;
  CHECK(check_return(200, from_member(1), job.table, job.current).result == kind::generation_ended);
  job.current.end_by_loss();
  CHECK(check_return(200, from_member(2), job.table, job.current).result == kind::generation_ended);
}

TEST_CASE("a member is refused if the job, the link or the generation is not its own, or its slot ended",
          "[admission]") {
  running_job job;
  job.table.end_process(2, "exited with code 1");
  const auto reason = [&](link_id from, const returning& request) {
    const auto decision_on_return = check_return(from, request, job.table, job.current);
    CHECK(decision_on_return.result == return_decision::kind::turned_away);
    return decision_on_return.reason.reason;
  };
  CHECK(reason(200, from_member(5)) ==
        "slot 5 is not known to this rendezvous: was it started without its journal?");
  CHECK(reason(100, from_member(1)) == "this connection has joined already, as slot 0");
  CHECK(reason(200, from_member(2)) == "slot 2 exited with code 1 and cannot come again");
  auto later = from_member(1);
  later.generation = 2;
  CHECK_THAT(reason(200, later), Catch::StartsWith("this rendezvous knows generations up to 1 and not 2"));
  later.wire_version = wire_version + 1;
  CHECK_THAT(reason(200, later), Catch::StartsWith("wire version "));
}
