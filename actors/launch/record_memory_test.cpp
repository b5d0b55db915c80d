#include "actors/launch/record_memory.hpp"

#include <catch2/catch.hpp>

#include <sys/stat.h>

#include "messages/record/event_region.hpp"

using namespace farandole;

namespace {

process_spec process_with(std::vector<std::string> environment) {
  process_spec process;
  process.environment = std::move(environment);
  return process;
}

std::size_t bytes_of(const descriptor& memory) {
  struct stat status {};
  REQUIRE(::fstat(memory.get(), &status) == 0);
  return static_cast<std::size_t>(status.st_size);
}

} // namespace

TEST_CASE("a process inherits memory for its event record under the number that a variable names") {
  auto process = process_with({"A=1", "FARANDOLE_RECORDER_FD=77"});
  const auto memory = add_record_memory(process);
  REQUIRE(memory);
  CHECK(process.inherited == std::vector<int>{memory.get()});
  CHECK(process.environment ==
        std::vector<std::string>{"A=1", "FARANDOLE_RECORDER_FD=" + std::to_string(memory.get())});
  CHECK(bytes_of(memory) == event_region_layout{4096}.bytes());
}

TEST_CASE("the memory has room for the number of events that the process will want") {
  auto process = process_with({"FARANDOLE_RECORDER_EVENTS=100"});
  CHECK(bytes_of(add_record_memory(process)) == event_region_layout{128}.bytes());
  for (const auto* value : {"", "many", "-4", "99999999999"}) {
    auto other = process_with({std::string("FARANDOLE_RECORDER_EVENTS=") + value});
    CHECK(bytes_of(add_record_memory(other)) == event_region_layout{4096}.bytes());
  }
}

TEST_CASE("a process without a record gets no memory, also not that of its launcher") {
  auto process = process_with({"FARANDOLE_RECORDER_EVENTS=0", "FARANDOLE_RECORDER_FD=77"});
  CHECK_FALSE(add_record_memory(process));
  CHECK(process.inherited.empty());
  CHECK(process.environment == std::vector<std::string>{"FARANDOLE_RECORDER_EVENTS=0"});
}
