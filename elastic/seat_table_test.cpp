#include "elastic/seat_table.hpp"

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

/// Slots 0.. in a running generation, by links 100 + slot, as processes 700 + slot on host "a".
seat_table running_seats(std::int32_t size) {
  seat_table seats;
  slots all;
  for (std::int32_t slot = 0; slot < size; ++slot) {
    seats.expect(slot, {});
    auto& seat = seats.at(slot);
    seat.link = static_cast<route>(100 + slot);
    seat.announced = from_process(slot, 700 + slot);
    all.push_back(slot);
  }
  seats.start_generation(all, true);
  return seats;
}

} // namespace

TEST_CASE("a slot gets one seat, whose host is the last that was named", "[seat_table]") {
  seat_table seats;
  CHECK(seats.expect(3, "node1"));
  CHECK_FALSE(seats.expect(3, ""));
  CHECK(seats.at(3).host == "node1");
  CHECK_FALSE(seats.expect(3, "node2"));
  CHECK(seats.at(3).host == "node2");
  CHECK(seats.find(3) == &seats.at(3));
  CHECK(seats.find(2) == nullptr);
}

TEST_CASE("the link from before a process came again still reports for its slot", "[seat_table]") {
  auto seats = running_seats(2);
  CHECK(seats.slot_of(101) == 1);
  CHECK_FALSE(seats.slot_of(102));
  seats.at(1).earlier = seats.at(1).link;
  seats.at(1).link = 201;
  CHECK_FALSE(seats.slot_of(101));
  CHECK(seats.reporter_of(101) == 1);
  CHECK(seats.reporter_of(201) == 1);
  CHECK_FALSE(seats.reporter_of(102));
}

TEST_CASE("the same process is known by its number, its host and its seat in the generation",
          "[seat_table]") {
  auto seats = running_seats(2);
  CHECK(seats.link_of_same_process(from_process(1, 701)) == 101);
  CHECK_FALSE(seats.link_of_same_process(from_process(1, 702)));
  CHECK_FALSE(seats.link_of_same_process(from_process(1, 701, "b")));
  CHECK_FALSE(seats.link_of_same_process(from_process(2, 701)));
  seats.at(1).in_generation = false;
  CHECK_FALSE(seats.link_of_same_process(from_process(1, 701)));
  seats.at(0).announced.process = 0; // it did not say
  CHECK_FALSE(seats.link_of_same_process(from_process(0, 0)));
}

TEST_CASE("who is present has a link and is not to leave", "[seat_table]") {
  auto seats = running_seats(3);
  seats.at(0).retired = true;
  seats.at(1).link.reset();
  CHECK(seats.present() == std::map<std::int32_t, route>{{2, 102}});
  CHECK(seats.some_present());
  seats.at(2).link.reset();
  CHECK_FALSE(seats.some_present());
}

TEST_CASE("a seat is usable until its process has ended or it is to leave", "[seat_table]") {
  auto seats = running_seats(2);
  CHECK(seats.at(0).is_usable());
  seats.end_process(0, "exited with code 1");
  seats.at(1).retired = true;
  CHECK_FALSE(seats.at(0).is_usable());
  CHECK_FALSE(seats.at(1).is_usable());
}

TEST_CASE("the first process that ended is remembered, and is not waited for", "[seat_table]") {
  auto seats = running_seats(3);
  CHECK_FALSE(seats.first_ended());
  seats.end_process(2, "exited with code 1");
  seats.end_process(0, "was killed by signal 9");
  CHECK(seats.first_ended() == 2);
  CHECK(seats.at(2).ended);
  CHECK(seats.at(2).end_reason == "exited with code 1");
  CHECK_FALSE(seats.at(2).awaited);
  CHECK_FALSE(seats.at(2).link);
}

TEST_CASE("a generation has left when its last member has", "[seat_table]") {
  auto seats = running_seats(2);
  seats.at(0).in_generation = false;
  CHECK_FALSE(seats.all_left());
  seats.at(1).in_generation = false;
  CHECK(seats.all_left());
}

TEST_CASE("a generation gives its members ranks and takes those of all others", "[seat_table]") {
  auto seats = running_seats(3);
  seats.at(2).earlier = 90;
  seats.start_generation({2, 0}, true);
  CHECK(seats.at(2).last_rank == 0);
  CHECK(seats.at(0).last_rank == 1);
  CHECK(seats.at(1).last_rank == -1);
  CHECK(seats.at(2).in_generation);
  CHECK(seats.at(2).awaited);
  CHECK_FALSE(seats.at(2).earlier);
  CHECK_FALSE(seats.at(1).in_generation);
  CHECK_FALSE(seats.at(1).awaited);
}

TEST_CASE("a job that is not elastic waits for every slot whose process lives", "[seat_table]") {
  auto seats = running_seats(3);
  seats.end_process(1, "exited with code 1");
  seats.start_generation({0}, false);
  CHECK(seats.at(2).awaited);
  CHECK_FALSE(seats.at(1).awaited);
}

TEST_CASE("those without a link are given up, of all or of the generation", "[seat_table]") {
  auto seats = running_seats(4);
  seats.at(1).link.reset();
  seats.at(2).link.reset();
  seats.at(2).in_generation = false;
  CHECK(seats.at(1).is_absent());
  CHECK_FALSE(seats.at(2).is_absent());
  CHECK(seats.give_up_missing(true) == slots{1});
  CHECK_FALSE(seats.at(1).awaited);
  CHECK(seats.at(2).awaited);
  CHECK(seats.give_up_missing(false) == slots{1, 2});
  CHECK_FALSE(seats.at(2).awaited);
  CHECK(seats.at(3).awaited);
}

TEST_CASE("seats that were kept are the same but for their links", "[seat_table]") {
  auto seats = running_seats(4);
  seats.at(0).retired = true;
  seats.end_process(1, "exited with code 1");
  seats.at(1).in_generation = false;
  seats.end_process(3, "exited with code 2");
  const auto images = seats.image(true);
  REQUIRE(images.size() == 4);
  CHECK(images[2].process == 702);
  CHECK(images[1].process == 0); // only of a seat that is in
  seat_table kept;
  kept.restore(images);
  CHECK(kept.image(true) == images);
  CHECK(kept.at(2).is_absent());
  CHECK(kept.at(2).untold);
  CHECK(kept.at(2).is_of("a", 702));
  CHECK_FALSE(kept.at(1).untold);
  CHECK(kept.first_ended() == 1);
}

TEST_CASE("who came again before its farewell is kept as a member while the generation runs",
          "[seat_table]") {
  auto seats = running_seats(1);
  seats.at(0).in_generation = false;
  seats.at(0).earlier = 90;
  CHECK(seats.image(true)[0].in_generation);
  CHECK_FALSE(seats.image(false)[0].in_generation);
}
