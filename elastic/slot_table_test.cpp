#include "elastic/slot_table.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

using slots = std::vector<std::int32_t>;

hello from_process(std::int32_t slot, std::int64_t process, const std::string& host = "a") {
  hello request;
  request.slot = slot;
  request.host = host;
  request.process = process;
  return request;
}

/// Slots from 0 on in a running generation, by links 100 + slot, as processes 700 + slot on host "a".
slot_table running_slots(std::int32_t size) {
  slot_table table;
  slots all;
  for (std::int32_t slot = 0; slot < size; ++slot) {
    table.expect(slot, {});
    auto& record = table.at(slot);
    record.link = static_cast<link_id>(100 + slot);
    record.announced = from_process(slot, 700 + slot);
    all.push_back(slot);
  }
  table.start_generation(all, true);
  return table;
}

} // namespace

TEST_CASE("a slot has one entry, with the host that was named last", "[slot_table]") {
  slot_table table;
  CHECK(table.expect(3, "node1"));
  CHECK_FALSE(table.expect(3, ""));
  CHECK(table.at(3).host == "node1");
  CHECK_FALSE(table.expect(3, "node2"));
  CHECK(table.at(3).host == "node2");
  CHECK(table.find(3) == &table.at(3));
  CHECK(table.find(2) == nullptr);
}

TEST_CASE("the link from before a process came again still reports for its slot", "[slot_table]") {
  auto table = running_slots(2);
  CHECK(table.slot_of(101) == 1);
  CHECK_FALSE(table.slot_of(102));
  table.at(1).earlier = table.at(1).link;
  table.at(1).link = 201;
  CHECK_FALSE(table.slot_of(101));
  CHECK(table.reporter_of(101) == 1);
  CHECK(table.reporter_of(201) == 1);
  CHECK_FALSE(table.reporter_of(102));
}

TEST_CASE("a process is recognised by its number, its host and its slot in the generation", "[slot_table]") {
  auto table = running_slots(2);
  CHECK(table.link_of_same_process(from_process(1, 701)) == 101);
  CHECK_FALSE(table.link_of_same_process(from_process(1, 702)));
  CHECK_FALSE(table.link_of_same_process(from_process(1, 701, "b")));
  CHECK_FALSE(table.link_of_same_process(from_process(2, 701)));
  table.at(1).in_generation = false;
  CHECK_FALSE(table.link_of_same_process(from_process(1, 701)));
  table.at(0).announced.process = 0; // the process sent no number
  CHECK_FALSE(table.link_of_same_process(from_process(0, 0)));
}

TEST_CASE("a slot is present if it has a link and is not retired", "[slot_table]") {
  auto table = running_slots(3);
  table.at(0).retired = true;
  table.at(1).link.reset();
  CHECK(table.present() == std::map<std::int32_t, link_id>{{2, 102}});
  CHECK(table.some_present());
  table.at(2).link.reset();
  CHECK_FALSE(table.some_present());
}

TEST_CASE("a slot is usable until its process has ended or it is retired", "[slot_table]") {
  auto table = running_slots(2);
  CHECK(table.at(0).is_usable());
  table.end_process(0, "exited with code 1");
  table.at(1).retired = true;
  CHECK_FALSE(table.at(0).is_usable());
  CHECK_FALSE(table.at(1).is_usable());
}

TEST_CASE("the first process that ended is remembered, and is not waited for", "[slot_table]") {
  auto table = running_slots(3);
  CHECK_FALSE(table.first_ended());
  table.end_process(2, "exited with code 1");
  table.end_process(0, "was killed by signal 9");
  CHECK(table.first_ended() == 2);
  CHECK(table.at(2).ended);
  CHECK(table.at(2).end_reason == "exited with code 1");
  CHECK_FALSE(table.at(2).awaited);
  CHECK_FALSE(table.at(2).link);
}

TEST_CASE("a generation has left when its last member has left", "[slot_table]") {
  auto table = running_slots(2);
  table.at(0).in_generation = false;
  CHECK_FALSE(table.all_left());
  table.at(1).in_generation = false;
  CHECK(table.all_left());
}

TEST_CASE("a generation gives its members ranks and clears those of all others", "[slot_table]") {
  auto table = running_slots(3);
  table.at(2).earlier = 90;
  table.start_generation({2, 0}, true);
  CHECK(table.at(2).last_rank == 0);
  CHECK(table.at(0).last_rank == 1);
  CHECK(table.at(1).last_rank == -1);
  CHECK(table.at(2).in_generation);
  CHECK(table.at(2).awaited);
  CHECK_FALSE(table.at(2).earlier);
  CHECK_FALSE(table.at(1).in_generation);
  CHECK_FALSE(table.at(1).awaited);
}

TEST_CASE("a job that is not elastic waits for every slot whose process lives", "[slot_table]") {
  auto table = running_slots(3);
  table.end_process(1, "exited with code 1");
  table.start_generation({0}, false);
  CHECK(table.at(2).awaited);
  CHECK_FALSE(table.at(1).awaited);
}

TEST_CASE("absent slots are given up, all of them or those of the generation", "[slot_table]") {
  auto table = running_slots(4);
  table.at(1).link.reset();
  table.at(2).link.reset();
  table.at(2).in_generation = false;
  CHECK(table.at(1).is_absent());
  CHECK_FALSE(table.at(2).is_absent());
  CHECK(table.give_up_missing(true) == slots{1});
  CHECK_FALSE(table.at(1).awaited);
  CHECK(table.at(2).awaited);
  CHECK(table.give_up_missing(false) == slots{1, 2});
  CHECK_FALSE(table.at(2).awaited);
  CHECK(table.at(3).awaited);
}

TEST_CASE("restored slots equal the stored ones except for their links", "[slot_table]") {
  auto table = running_slots(4);
  table.at(0).retired = true;
  table.end_process(1, "exited with code 1");
  table.at(1).in_generation = false;
  table.end_process(3, "exited with code 2");
  const auto images = table.image(true);
  REQUIRE(images.size() == 4);
  CHECK(images[2].process == 702);
  CHECK(images[1].process == 0); // the process number is stored only for members of the generation
  slot_table kept;
  kept.restore(images);
  CHECK(kept.image(true) == images);
  CHECK(kept.at(2).is_absent());
  CHECK(kept.at(2).notice_uncertain);
  CHECK(kept.at(2).is_of("a", 702));
  CHECK_FALSE(kept.at(1).notice_uncertain);
  CHECK(kept.first_ended() == 1);
}

TEST_CASE("a member that came again before its farewell is stored as a member while the generation runs",
          "[slot_table]") {
  auto table = running_slots(1);
  table.at(0).in_generation = false;
  table.at(0).earlier = 90;
  CHECK(table.image(true)[0].in_generation);
  CHECK_FALSE(table.image(false)[0].in_generation);
}
