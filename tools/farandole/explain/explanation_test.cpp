#include "tools/farandole/explain/explanation.hpp"

#include <catch2/catch.hpp>

#include "tools/farandole/explain/explain_testing.hpp"
#include "tools/farandole/explain/explanation_text.hpp"

using namespace farandole;
using Catch::Matchers::Contains;
using ranks = std::vector<std::int32_t>;

namespace {

explanation explain(const std::vector<made_record>& records, std::int64_t read_at_ms = 5000) {
  std::vector<rank_activity> activities;
  for (const auto& record : records)
    activities.push_back(record.activity());
  return explain_job(activities, at_ms(read_at_ms));
}

made_record waiting(std::int32_t rank, std::int32_t size, std::uint64_t ms, const std::string& tensor) {
  return made_record(rank, size).call(ms, tensor).wait(ms, tensor);
}

} // namespace

TEST_CASE("two ranks that wait for each other's tensor call in different orders", "[explain]") {
  const auto job = explain({waiting(0, 2, 1000, "a"), waiting(1, 2, 2000, "b")});
  REQUIRE(job.pending.size() == 2);
  CHECK(job.pending[0].tensor.name == "a");
  CHECK(job.pending[0].called == ranks{0});
  CHECK(job.pending[0].missing == ranks{1});
  CHECK(job.pending[1].tensor.name == "b");
  CHECK(job.pending[1].called == ranks{1});
  REQUIRE(job.conflicts.size() == 1);
  CHECK(job.conflicts[0].rank == 0);
  CHECK(job.conflicts[0].tensor.name == "a");
  CHECK(job.conflicts[0].other == 1);
  CHECK(job.conflicts[0].other_tensor.name == "b");
  CHECK_FALSE(job.ended);
  CHECK(job.ranks[1].work == rank_work::waiting);
  const auto text = text_of(job);
  CHECK_THAT(text, Contains("A job of 2 ranks, generation 1, at 2023-11-14 22:13:25 UTC."));
  CHECK_THAT(text,
             Contains("Cause:\n  rank 0 waited for a, rank 1 for b: they call in different orders.\n\n"));
  CHECK_THAT(text, Contains("a (allreduce, 16 B), for 4.0 s: called by rank 0; not by rank 1"));
  CHECK_THAT(text, Contains("rank 1 on alpha waited for b for 3.0 s"));
}

TEST_CASE("a rank that has called the other's tensor as well is not in a conflict", "[explain]") {
  const auto job =
      explain({waiting(0, 2, 1000, "a"), made_record(1, 2).call(1000, "a").call(1001, "b").wait(1002, "b")});
  CHECK(job.conflicts.empty());
  CHECK(job.pending[0].called == ranks{0, 1});
}

TEST_CASE(
    "a rank whose record still waits for what another one has completed is behind, not in another order",
    "[explain]") {
  auto ahead = made_record(0, 2).complete(990, "a").complete(993, "b").complete(996, "a").call(999, "b");
  ahead.wait(999, "b").copied(4000);
  auto behind = made_record(1, 2).complete(990, "a").complete(993, "b").call(996, "a").wait(996, "a");
  const auto running = explain({ahead, behind.copied(4000)});
  CHECK(running.conflicts.empty());
  REQUIRE(running.pending.size() == 2);
  CHECK(running.pending[0].tensor.name == "a");
  CHECK(running.pending[0].complete == ranks{0});
  CHECK(running.pending[0].missing.empty());
  CHECK_THAT(text_of(running),
             Contains("a (allreduce, 16 B), for 3.0 s: called by rank 1; complete on rank 0"));
  CHECK_THAT(json_of(running), Contains("\"called\": [1], \"complete\": [0]"));

  behind.record().copied->state = 'T';
  const auto stopped = text_of(explain({ahead, behind}));
  CHECK_THAT(stopped,
             Contains("Cause:\n  rank 0 waits for rank 1, which has not called b: it has waited for a "
                      "for 3.0 s; its process is stopped (by SIGSTOP or Ctrl-Z).\n\n"));
}

TEST_CASE("a caller that has not woken up since the result was there does not wait for it", "[explain]") {
  const auto job = explain({waiting(0, 2, 1000, "a").settle(1002, "a").fail(1003, "it left"),
                            waiting(1, 2, 1000, "a").settle(1001, "a").fail(1003, "it left")});
  CHECK(job.conflicts.empty());
  CHECK_THAT(text_of(job), !Contains("waited for a"));
}

TEST_CASE("a rank in an earlier call for the same tensor has not made the later one", "[explain]") {
  const auto job = explain({made_record(0, 2).complete(990, "a").call(993, "a").wait(993, "a"),
                            made_record(1, 2).call(990, "a").wait(990, "a")});
  REQUIRE(job.pending.size() == 1);
  CHECK(job.pending[0].called == ranks{0});
  CHECK(job.pending[0].missing == ranks{1});
  CHECK_THAT(text_of(job),
             Contains("rank 0 waited for rank 1, which had not called a again: it waited for a"));
}

TEST_CASE("the state of a stopped or stuck process is the cause, not the order of calls", "[explain]") {
  const auto state = GENERATE('T', 't', 'D', 'Z');
  auto held = waiting(1, 2, 2000, "b").copied(4000);
  held.record().copied->state = state;
  const auto other_order = explain({waiting(0, 2, 1000, "a").copied(4000), held});
  CHECK(other_order.conflicts.empty());
  CHECK_THAT(text_of(other_order),
             Contains("it has waited for b for 2.0 s; its process ") && !Contains("rank 0, which"));

  auto inside = waiting(1, 2, 1000, "a").copied(4000);
  inside.record().copied->state = state;
  const auto text = text_of(explain({waiting(0, 2, 1000, "a").copied(4000), inside}));
  CHECK_THAT(text, Contains("Cause:\n  rank 1 on alpha has waited for a for 3.0 s; its process "));
  CHECK_THAT(text, !Contains("is being moved"));
}

TEST_CASE("a rank that was killed does not call in another order", "[explain]") {
  const auto job =
      explain({waiting(0, 2, 1000, "a"), waiting(1, 2, 2000, "b").copied(4000, "was killed by signal 9")});
  CHECK(job.conflicts.empty());
  CHECK_THAT(text_of(job),
             Contains("Cause:\n  rank 1 on alpha was killed by signal 9") && !Contains("rank 0, which"));
}

TEST_CASE("a rank in user code is named with its last call, and since when", "[explain]") {
  const auto job =
      explain({waiting(0, 3, 2000, "x"), waiting(1, 3, 2000, "x"), made_record(2, 3).complete(998, "y")});
  CHECK(job.pending.at(0).called == ranks{0, 1});
  CHECK(job.pending.at(0).missing == ranks{2});
  CHECK(job.ranks.at(2).work == rank_work::user_code);
  CHECK_THAT(text_of(job),
             Contains("ranks 0 and 1 waited for rank 2, which had not called x: it was in user code for "
                      "4.0 s, since y was complete."));
}

TEST_CASE("durations end when the job fails", "[explain]") {
  auto first = waiting(0, 2, 1000, "x").settle(3000, "x", error_kind::timed_out).fail(3001, "too late");
  const auto job = explain({first, made_record(1, 2).complete(500, "y").fail(3002, "too late")});
  CHECK(job.ended);
  CHECK(job.time == at_ms(3000));
  CHECK(job.reasons == std::vector<std::string>{"too late"});
  CHECK(job.pending.at(0).missing == ranks{1});
  CHECK_THAT(text_of(job),
             Contains("which ended at 2023-11-14 22:13:23 UTC.\nThe ranks ended with: too late\n"));
  CHECK_THAT(text_of(job), Contains("x (allreduce, 16 B), for 2.0 s"));
}

TEST_CASE("a reason that another rank repeats is given once", "[explain]") {
  const auto job = explain({made_record(0, 3).fail(10, "the time has passed"),
                            made_record(1, 3).fail(11, "rank 0 cannot go on: the time has passed"),
                            made_record(2, 3).fail(12, "the disk is full")});
  CHECK(job.reasons == std::vector<std::string>{"the time has passed", "the disk is full"});
}

TEST_CASE("a killed rank is named with the end of its record", "[explain]") {
  auto survivor =
      waiting(0, 2, 1000, "x").settle(2000, "x", error_kind::disconnected).fail(2000, "rank 1 was lost");
  auto killed = made_record(1, 2).complete(990, "y").copied(4000, "was killed by signal 9 (Killed)");
  const auto job = explain({survivor.copied(4000, "exited with code 1"), killed});
  CHECK(job.ranks.at(1).work == rank_work::gone);
  const auto text = text_of(job);
  CHECK_THAT(
      text,
      Contains("Cause:\n  rank 1 on alpha was killed by signal 9 (Killed); its record ends at 2023-11-14 "
               "22:13:20 UTC, after y was complete.\n\n"));
  CHECK_THAT(text, Contains("rank 0 on alpha waited for x for 1.0 s; its process exited with code 1"));
}

TEST_CASE("a rank that was killed inside a call is named with this call", "[explain]") {
  const auto job =
      explain({waiting(0, 2, 1000, "x"), waiting(1, 2, 990, "y").copied(4000, "was killed by signal 9")});
  CHECK_THAT(text_of(job), Contains("after it had called y."));
}

TEST_CASE("a rank inside a path, one that called nothing, and one that never called init() are told apart",
          "[explain]") {
  auto moving = made_record(1, 4).call(1000, "x").path(event_kind::path_begin, 1000);
  auto absent = made_record(-1, 0).copied(4000, "exited with code 3");
  absent.record().process = 0;
  absent.record().member.host.clear();
  absent.record().copied->slot = 3;
  const auto job = explain({waiting(0, 4, 1000, "x"), moving, made_record(2, 4), absent});
  CHECK(job.ranks.at(1).work == rank_work::on_path);
  CHECK(job.ranks.at(2).work == rank_work::no_call);
  CHECK(job.ranks.at(3).work == rank_work::no_record);
  CHECK(job.ranks.at(4).work == rank_work::not_started);
  const auto text = text_of(job);
  CHECK_THAT(text, Contains("rank 1 on alpha moved tensors on the path shm for 3.0 s"));
  CHECK_THAT(text,
             Contains("waited for rank 2, which had not called x: it had not called any operation in the "
                      "4.0 s since its generation began."));
  CHECK_THAT(text, Contains("the process of slot 3 had not called init(); its process exited with code 3."));
  CHECK_THAT(text, Contains("rank 3 has no record here"));
}

TEST_CASE("of a rank without a record, the calls of the others tell what it had not done", "[explain]") {
  const auto job = explain({waiting(0, 3, 1000, "x"), waiting(1, 3, 1000, "x")});
  CHECK(job.pending.at(0).unknown == ranks{2});
  CHECK_THAT(text_of(job), Contains("all ranks with a record had called x, so rank 2 had not called it"));
}

TEST_CASE("a report of a stall says what the missing ranks of the running job are doing", "[explain]") {
  auto stopped = made_record(1, 3).complete(990, "y").copied(4000);
  stopped.record().copied->state = 'T';
  auto job = explain({waiting(0, 3, 1000, "x").copied(4000), stopped});
  const std::string line =
      "rank 1 on alpha has been in user code for 3.0 s, since y was complete; its process is stopped (by "
      "SIGSTOP or Ctrl-Z)\n";
  CHECK(text_of_ranks(job, {1, 2}) == line);
  job.ranks.at(1).stack = {"Thread 7 (idle)", "    wait (script.py:9)"};
  CHECK(text_of_ranks(job, {1, 2}) == line + "    Thread 7 (idle)\n        wait (script.py:9)\n");
  CHECK(text_of_ranks(job, {2}).empty());
}

TEST_CASE("processes that have not come together are named by slot, in order", "[explain]") {
  const auto before_init = [](std::int32_t slot) {
    auto record = made_record(-1, 0).copied(4000);
    record.record().process = 0;
    record.record().member.host.clear();
    record.record().origin = {};
    record.record().copied->slot = slot;
    return record;
  };
  CHECK_THAT(text_of(explain({before_init(1), before_init(0)})),
             Contains("A job of 2 processes that have not come together yet, at 2023-11-14 22:13:24 UTC.\n\n"
                      "Cause:\n  the processes of slots 0 and 1 have not called init().\n\n"
                      "Ranks:\n  the process of slot 0 has not called init()\n"
                      "  the process of slot 1 has not called init()\n"));
  auto waits = made_record(-1, 0, 0).regroup(3000, regroup_phase::waiting, 0).copied(4000);
  waits.record().copied->slot = 0;
  const auto text = text_of(explain({before_init(1), waits}));
  CHECK_THAT(text, Contains("Cause:\n  the process of slot 1 has not called init().\n\n"));
  CHECK_THAT(text,
             Contains("no member yet; since 2023-11-14 22:13:23 UTC it has waited for the other processes"));
}

TEST_CASE("a process that joins is no member yet", "[explain]") {
  const auto job = explain({made_record(-1, 0)});
  CHECK(job.ranks.at(0).work == rank_work::joining);
  CHECK_THAT(text_of(job), Contains("had called init(), but was no member yet"));
}

TEST_CASE("a rank that waits for the next generation, or connects to it, is named with the time",
          "[explain]") {
  auto job = explain({waiting(0, 2, 1000, "a")
                          .fail(2000, "rank 1 was lost")
                          .regroup(3000, regroup_phase::waiting, 1)
                          .copied(4000, "exited with code 1"),
                      made_record(-1, 0, 0).regroup(3000, regroup_phase::connecting, 2)});
  CHECK_THAT(text_of(job), Contains("waited for a for 1.0 s; since 2023-11-14 22:13:23 UTC it waited for the "
                                    "next generation; its process exited with code 1\n"));
  CHECK_THAT(text_of(job), Contains("had called init(), but was no member yet; since 2023-11-14 22:13:23 UTC "
                                    "it connected to the members of generation 2\n"));
  CHECK_THAT(json_of(job), Contains("\"regroup\": \"waiting\", \"regroup_since\": 1700000003.000000000"));
}

TEST_CASE("a tensor that all ranks called was being moved", "[explain]") {
  CHECK_THAT(text_of(explain({waiting(0, 2, 1000, "x"), waiting(1, 2, 1000, "x")})),
             Contains("all ranks had called x; it was being moved when its record ends."));
  // The fast path may have completed it: whether it has is recorded when a caller waits.
  CHECK_THAT(text_of(explain({made_record(0, 2).call(1000, "x"), made_record(1, 2).call(1000, "x")})),
             !Contains("being moved"));
}

TEST_CASE("calls with other operations or sizes are named", "[explain]") {
  const auto sizes = explain({waiting(0, 2, 1000, "x"), made_record(1, 2).call(1000, "x", 32)});
  CHECK(sizes.pending.at(0).differs == ranks{1});
  CHECK_THAT(text_of(sizes), Contains("rank 0 called x with 16 B, rank 1 with 32 B."));
  const auto rows = explain({made_record(0, 2).call(1, "x", 8, operation::allgather),
                             made_record(1, 2).call(1, "x", 16, operation::allgather)});
  CHECK(rows.pending.at(0).differs.empty());
}

TEST_CASE("after a mismatch, the operation has failed, and what differs is said if it is recorded",
          "[explain]") {
  const auto failed = [](std::int32_t rank, std::uint64_t bytes, operation requested) {
    return made_record(rank, 2).call(1, "x", bytes, requested).settle(2, "x", error_kind::mismatch);
  };
  const auto sizes = explain({failed(0, 16, operation::allreduce), failed(1, 32, operation::allreduce)});
  CHECK(sizes.mismatched.at(0).called == ranks{0, 1});
  CHECK_THAT(text_of(sizes), Contains("Cause:\n  rank 0 called x with 16 B, rank 1 with 32 B.\n"));
  CHECK_THAT(text_of(sizes), Contains("rank 0 on alpha was in user code for 5.0 s, since x failed"));
  CHECK_THAT(text_of(explain({failed(0, 16, operation::allreduce), failed(1, 16, operation::broadcast)})),
             Contains("rank 0 called allreduce under the name x, rank 1 broadcast."));
  CHECK_THAT(
      text_of(explain({failed(0, 16, operation::allreduce), failed(1, 16, operation::allreduce)})),
      Contains("the ranks made different requests under the name x; the error on each rank says how they "
               "differ."));
}

TEST_CASE("that a rank has left is a reason only if there is no other", "[explain]") {
  const std::string left = "Farandole has been shut down on this rank; call init() again to go on";
  CHECK(explain({made_record(0, 1).fail(10, left)}).reasons == std::vector{left});
  CHECK(explain({made_record(0, 2).fail(10, left), made_record(1, 2).fail(11, "the disk is full")}).reasons ==
        std::vector<std::string>{"the disk is full"});
}

TEST_CASE("only members of a process set can miss its tensors", "[explain]") {
  auto first =
      made_record(0, 3).begin_set(1, 4).call(1000, "x", 16, operation::allreduce, 4).wait(1000, "x", 4);
  const auto job = explain({first, made_record(1, 3).begin_set(1, 4), made_record(2, 3)});
  CHECK(job.pending.at(0).missing == ranks{1});
  CHECK_THAT(text_of(job), Contains("x of process set 4 (allreduce"));
}

TEST_CASE("numbers of calls that differ are listed, unless events are missing", "[explain]") {
  auto first = made_record(0, 2).complete(1, "a").complete(5, "a");
  auto second = made_record(1, 2).complete(1, "a");
  const auto job = explain({first, second});
  REQUIRE(job.counts.size() == 1);
  CHECK(job.counts[0].calls == std::map<std::int32_t, std::uint64_t>{{0, 2}, {1, 1}});
  CHECK_THAT(text_of(job),
             Contains("Numbers of calls that differ:\n  a: 1 time on rank 1, 2 times on rank 0\n"));
  CHECK_THAT(text_of(job), Contains("No rank waits for another."));
  second.record().threads[0].dropped = 1;
  CHECK(explain({first, second}).counts.empty());
}

TEST_CASE("long lists are cut in the text, but not in JSON", "[explain]") {
  std::vector<made_record> records;
  for (std::int32_t rank = 0; rank < 30; ++rank)
    records.push_back(waiting(rank, 31, 1000, "x"));
  const auto job = explain(records);
  CHECK_THAT(text_of(job), Contains("called by ranks 0 to 29; not known of rank 30"));
  CHECK_THAT(text_of(job), Contains("… and 21 more (--json lists all)"));
  CHECK_THAT(json_of(job), Contains("\"rank\": 29"));
}

TEST_CASE("names that could disturb a terminal or JSON are escaped", "[explain]") {
  const auto job = explain({waiting(0, 2, 1000, "a\"\n\x1b[2J"), made_record(1, 2)});
  CHECK_THAT(text_of(job), Contains("a\"\\n\\x1b[2J (allreduce"));
  CHECK_THAT(json_of(job), Contains("\"tensor\": \"a\\\"\\\\n\\\\x1b[2J\", \"set\": 0"));
}

TEST_CASE("JSON has the same facts", "[explain]") {
  const auto json = json_of(explain({waiting(0, 2, 1000, "a"), waiting(1, 2, 2000, "b")}));
  CHECK_THAT(json, Contains("\"size\": 2, \"generation\": 1"));
  CHECK_THAT(json, Contains("\"seconds\": 4.000000000, \"called\": [0], \"complete\": [], \"missing\": [1], "
                            "\"unknown\": [], \"differs\": []"));
  CHECK_THAT(json, Contains("{\"ranks\": [0, 1], \"tensors\": [\"a\", \"b\"]}"));
  CHECK_THAT(json, Contains("\"work\": \"waiting\", \"text\": \"waited for b for 3.0 s\""));
}

TEST_CASE("no records give an empty explanation", "[explain]") {
  CHECK_THAT(text_of(explain({})), Contains("A job of 0 processes"));
}

TEST_CASE("a call after another rank has left is a cause that names both", "[explain]") {
  const std::string reason = "rank 1 on alpha ended its script after 1 operation (this rank: 1 operation).";
  const auto late = [&](std::int32_t rank, const std::string& tensor) {
    return made_record(rank, 3)
        .complete(1000, "a")
        .fail(2000, reason, error_kind::shut_down)
        .settle(3000, tensor, error_kind::shut_down);
  };
  auto left = made_record(1, 3).complete(1000, "a").fail(
      2000, "Farandole has been shut down on this rank; call init() again to go on", error_kind::shut_down);
  const auto job = explain({late(0, "b"), left, late(2, "b")});
  CHECK(job.left == ranks{1});
  REQUIRE(job.late.size() == 1);
  CHECK(job.late[0].tensor.name == "b");
  CHECK(job.late[0].ranks == ranks{0, 2});
  CHECK_THAT(text_of(job),
             Contains("The ranks ended with: " + reason) &&
                 Contains("Cause:\n  ranks 0 and 2 called b after rank 1 had left the job.\n\n"));
  CHECK_THAT(json_of(job), Contains(R"("late": [{"tensor": "b", "set": 0, "ranks": [0, 2]}])") &&
                               Contains(R"("left": [1])"));

  const auto different = explain({late(0, "b"), left, late(2, "c")});
  CHECK_THAT(text_of(different), Contains("rank 0 called b after rank 1 had left the job.") &&
                                     Contains("rank 2 called c after rank 1 had left the job."));
}

TEST_CASE("a call after the loss of a rank is a consequence of the loss", "[explain]") {
  const auto job = explain({made_record(0, 2)
                                .complete(1000, "a")
                                .fail(2000, "rank 1 was lost")
                                .settle(3000, "b", error_kind::disconnected),
                            made_record(1, 2).complete(1000, "a").copied(2500, "was killed by signal 9")});
  CHECK(job.left.empty());
  CHECK_THAT(text_of(job), !Contains(" called b"));
}
