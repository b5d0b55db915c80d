#include "actors/launch/record_writer.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <future>
#include <stdexcept>

#include "actors/launch/process_keeper.hpp"
#include "actors/launch/record_sender.hpp"
#include "messages/record/event_reader.hpp"
#include "messages/record/event_recorder.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// What a worker does in the memory that it was given. The process of a worker stands for all of them.
void record_as(const process_spec& process, std::int32_t rank) {
  const auto region = event_region::map(process.inherited.back(), 4096);
  REQUIRE(region);
  event_recorder recorder(*region);
  if (rank >= 0)
    recorder.describe({7, 1, rank, 2, rank, "alpha"});
  recorder.record(event_kind::joined, 0, 0);
}

process_spec given(worker_records& records, std::int32_t slot) {
  process_spec process;
  records.give(slot, process);
  REQUIRE(process.inherited.size() == 1);
  return process;
}

record_outcome finished(record_writer& writer) {
  std::promise<record_outcome> promised;
  writer.finish([&](const record_outcome& outcome) { promised.set_value(outcome); });
  return promised.get_future().get();
}

/// Writes these records to a new folder in `parent`.
record_outcome written(const worker_records& records, const std::string& parent) {
  record_writer writer;
  writer.begin({{}, parent, records.held()});
  return finished(writer);
}

/// The messages of an agent that holds these records.
std::vector<envelope> sent(const worker_records& records) {
  std::vector<envelope> messages;
  record_sender sender(5, records.held());
  while (auto message = sender.next())
    messages.push_back(*message);
  return messages;
}

/// Gives the messages of an agent to the writer.
void receive(record_writer& writer, const std::string& host, const std::vector<envelope>& messages) {
  REQUIRE_FALSE(messages.empty());
  for (const auto& message : messages)
    if (auto part = decode_record_part(message)) {
      std::promise<void> taken;
      writer.write(host, std::move(*part), [&] { taken.set_value(); });
      taken.get_future().wait();
    }
  const auto end = decode_records_sent(messages.back());
  REQUIRE(end);
  CHECK(*end == records_sent{5, ""});
  writer.end_of(host);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

event_record record_in(const std::string& path) {
  const auto region = event_region::open(path, 4096);
  REQUIRE(region);
  auto record = read_event_record((*region)->bytes());
  REQUIRE(record);
  return *record;
}

} // namespace

TEST_CASE("the records of all workers are written with how their processes ended") {
  const temporary_folder home;
  worker_records records;
  record_as(given(records, 0), 0);
  record_as(given(records, 1), 1);
  given(records, 2); // has not called init()
  records.ended({1, "was killed by signal 9 (Killed)"});
  records.ended({0, "was killed by signal 15 (Terminated)", true});
  records.ended({99, "is not known"});
  const auto outcome = written(records, home.path());
  CHECK(outcome.files == 3);
  const auto& folder = outcome.folder;
  CHECK(names_in(folder) == std::vector<std::string>{"rank-0.events", "rank-1.events", "slot-2.events"});
  const auto first = record_in(folder + "/rank-0.events"), second = record_in(folder + "/rank-1.events");
  REQUIRE(first.copied);
  CHECK(first.copied->told_to_end);
  CHECK(first.copied->slot == 0);
  CHECK(second.copied->ending == "was killed by signal 9 (Killed)");
  CHECK_FALSE(second.copied->told_to_end);
  CHECK(second.threads.size() == 1);
  CHECK(record_in(folder + "/slot-2.events").copied->ending.empty());
}

TEST_CASE("no folder is made if no worker has called init(), or if there is none") {
  const temporary_folder home;
  worker_records records;
  CHECK(written(records, home.file("dumps")).folder.empty());
  given(records, 0);
  const auto outcome = written(records, home.file("dumps"));
  CHECK(outcome.folder.empty());
  CHECK(outcome.files == 0);
  CHECK_FALSE(outcome.problem);
  CHECK_FALSE(std::filesystem::exists(home.file("dumps")));
}

TEST_CASE(
    "two workers with one rank get two files, and workers without which the job continued are forgotten") {
  const temporary_folder home;
  worker_records records;
  record_as(given(records, 4), 1);
  record_as(given(records, 5), 1);
  records.ended({4, "exited with code 1"});
  CHECK(names_in(written(records, home.path()).folder) ==
        std::vector<std::string>{"rank-1.events", "slot-5.events"});
  records.forget_ended();
  CHECK(names_in(written(records, home.path()).folder) == std::vector<std::string>{"rank-1.events"});
}

TEST_CASE("a place that cannot be written is an error with its path") {
  worker_records records;
  record_as(given(records, 0), 0);
  const auto made = written(records, "/dev/null/dumps");
  CHECK(made.problem.text.find("/dev/null/dumps") == 0);
  CHECK(made.folder.empty());
  const auto problem_with = [&](const std::string& folder) {
    record_writer writer;
    writer.begin({folder, {}, records.held()});
    return finished(writer).problem.text;
  };
  CHECK(problem_with("/dev/null/given") == "/dev/null/given: Not a directory");
  const temporary_folder home;
  CHECK(problem_with(home.path()).empty());
  std::filesystem::permissions(home.path(), std::filesystem::perms(0755));
  CHECK(problem_with(home.path()) ==
        home.path() + " is no folder that only this user can access (mode 0700)");
}

TEST_CASE("records of other hosts arrive in parts and are equal to the copies that their host makes") {
  const temporary_folder home;
  worker_records here, there;
  record_as(given(here, 0), 0);
  record_as(given(there, 1), 1);
  record_as(given(there, 2), 2);
  there.ended({2, "exited with code 3"});
  record_writer writer;
  writer.begin({{}, home.path(), here.held()});
  receive(writer, "b", sent(there));
  const auto outcome = finished(writer);
  CHECK(outcome.files == 3);
  CHECK(names_in(outcome.folder) ==
        std::vector<std::string>{"rank-0.events", "rank-1.events", "rank-2.events"});
  const auto remote = record_in(outcome.folder + "/rank-2.events");
  CHECK(remote.member.rank == 2);
  CHECK(remote.copied->ending == "exited with code 3");
  REQUIRE(remote.threads.size() == 1);
  CHECK(remote.threads.front().events.size() == 1);
  const auto copied = written(there, home.path());
  CHECK(std::filesystem::file_size(copied.folder + "/rank-2.events") ==
        std::filesystem::file_size(outcome.folder + "/rank-2.events"));
}

TEST_CASE("the first record of another host makes the folder, with the records of this host") {
  const temporary_folder home;
  worker_records here, there;
  given(here, 0); // has not called init()
  record_as(given(there, 1), 1);
  record_writer writer;
  writer.begin({{}, home.path(), here.held()});
  receive(writer, "b", sent(there));
  const auto outcome = finished(writer);
  CHECK(names_in(outcome.folder) == std::vector<std::string>{"rank-1.events", "slot-0.events"});
}

TEST_CASE("a host that does not send everything leaves no file, and an agent without records sends none") {
  const temporary_folder home;
  worker_records here, there, idle;
  record_as(given(here, 0), 0);
  record_as(given(there, 1), 1);
  given(idle, 2);
  CHECK(sent(idle).size() == 1);
  record_writer writer;
  writer.begin({{}, home.path(), here.held()});
  std::promise<void> taken;
  writer.write("b", *decode_record_part(sent(there).front()), [&] { taken.set_value(); });
  taken.get_future().wait();
  const auto outcome = finished(writer);
  CHECK(outcome.files == 1);
  CHECK(names_in(outcome.folder) == std::vector<std::string>{"rank-0.events"});
}

TEST_CASE("records that are only read are in a temporary folder, which is removed") {
  worker_records records;
  record_as(given(records, 0), 0);
  std::string folder;
  record_writer writer;
  record_order order{{}, {}, records.held()};
  order.read = [&](const std::string& path) {
    folder = path;
    return names_in(path).front();
  };
  writer.begin(std::move(order));
  const auto outcome = finished(writer);
  CHECK(outcome.text == "rank-0.events");
  CHECK(outcome.folder.empty());
  CHECK(outcome.files == 1);
  CHECK(folder.find("farandole-records-") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder));
}

TEST_CASE("a failure to read the records is a problem of this order, not of the launcher") {
  worker_records records;
  record_as(given(records, 0), 0);
  record_writer writer;
  record_order order{{}, {}, records.held()};
  std::string folder;
  order.read = [&](const std::string& path) -> std::string {
    folder = path;
    throw std::runtime_error("out of memory");
  };
  writer.begin(std::move(order));
  CHECK(finished(writer).problem.text == "the event records: out of memory");
  CHECK_FALSE(std::filesystem::exists(folder));
  const temporary_folder home;
  writer.begin({{}, home.path(), records.held()});
  CHECK(finished(writer).files == 1);
}

TEST_CASE("the keeper removes the temporary folder of a process that is killed while it reads the records") {
  worker_records records;
  record_as(given(records, 0), 0);
  auto keeper = process_keeper::start();
  REQUIRE(keeper);
  record_writer writer(*keeper);
  record_order order{{}, {}, records.held()};
  order.read = [&](const std::string& path) {
    const auto before = names_in(path).size();
    { const auto ended = std::move(*keeper); }
    return std::to_string(before) + (std::filesystem::exists(path) ? " left" : " removed");
  };
  writer.begin(std::move(order));
  CHECK(finished(writer).text == "1 removed");
}
