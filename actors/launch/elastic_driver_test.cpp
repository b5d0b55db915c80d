#include "actors/launch/elastic_driver.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "actors/event_loop/pipe_testing.hpp"
#include "actors/launch/launcher.hpp"
#include "elastic/journal.hpp"
#include "tests/patience.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;
using farandole::testing::patience;

namespace {

/// A folder that lives as long as the test.
struct folder {
  const temporary_folder made;
  const std::string path = made.path();

  std::string script(const std::string& body) const {
    const auto file = path + "/discover";
    std::ofstream(file) << "#!/bin/sh\n" << body << "\n";
    ::chmod(file.c_str(), 0755);
    return file;
  }
};

struct outcome {
  int code = -1;
  std::string err;
};

/// Every worker is `sh -c worker`, in the test's folder, with $SLOT, $HOST and $LOCAL.
elastic_job job_of(const folder& place, const std::string& worker, std::int32_t fewest,
                   std::int32_t processes, std::int32_t limit) {
  elastic_job job;
  job.scheduler.processes = processes;
  job.scheduler.fewest = fewest;
  job.scheduler.limit = limit;
  job.slot_for = [&place, worker](const worker_scheduler::start& start,
                                  const agent_hello*) -> expected<slot_spec> {
    slot_spec slot;
    slot.slot = start.slot;
    slot.label = std::to_string(start.slot);
    slot.process.arguments = {"sh", "-c", "cd " + place.path + "; " + worker};
    slot.process.environment = {"PATH=/usr/bin:/bin", "SLOT=" + std::to_string(start.slot),
                                "HOST=" + start.host, "LOCAL=" + std::to_string(start.local)};
    slot.linger = std::chrono::nanoseconds(0);
    return slot;
  };
  return job;
}

outcome run(const elastic_job& job, const char* discovery_timeout_s = "30", const std::string& journal = {},
            const char* discovery_interval_s = "1") {
  const descriptor file{::memfd_create("errors", MFD_CLOEXEC)},
      before{::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)};
  ::dup2(file.get(), STDERR_FILENO);
  outcome result;
  {
    launcher_options options;
    options.members = {job.scheduler.processes, true, job.scheduler.fewest, job.scheduler.limit};
    options.secret = "a secret of a test";
    options.journal = journal;
    REQUIRE_FALSE(options.values.assign(setting::exit_grace, "0", setting_source::flag));
    REQUIRE_FALSE(
        options.values.assign(setting::discovery_timeout, discovery_timeout_s, setting_source::flag));
    REQUIRE_FALSE(
        options.values.assign(setting::discovery_interval, discovery_interval_s, setting_source::flag));
    auto started = launcher::open(options);
    REQUIRE(started);
    result.code = (*started)->run(job);
  } // all output has been written
  ::dup2(before.get(), STDERR_FILENO);
  result.err.resize(1 << 20);
  const auto count = ::pread(file.get(), result.err.data(), result.err.size(), 0);
  result.err.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return result;
}

/// How often a worker's script looks for something, every 10 ms, before it gives up.
const std::string looks = std::to_string(patience / std::chrono::milliseconds(10));
/// For a worker's script: waits until the file $1 is there. $2: how often it looks.
const std::string await_file = "await() { n=0; while [ ! -e $1 ]; do n=$((n+1)); [ $n -lt ${2:-" + looks +
                               "} ] || exit 99; sleep 0.01; done; }; ";

std::unique_ptr<journal> opened(const std::string& path) {
  auto book = journal::open(path);
  REQUIRE(book);
  return std::move(*book);
}

using Catch::Contains;

} // namespace

TEST_CASE("an elastic job on fixed hosts starts a worker in each slot and ends with 0", "[elastic]") {
  const folder place;
  auto job = job_of(place, "echo $HOST $LOCAL > $SLOT", 1, 3, 3);
  job.hosts.hosts = {{"localhost", 2}, {"127.0.0.1", 1}};
  CHECK(run(job).code == 0);
  const char* wanted[] = {"localhost 0", "localhost 1", "127.0.0.1 0"};
  for (int slot = 0; slot < 3; ++slot) {
    std::string line;
    std::ifstream in(place.path + "/" + std::to_string(slot));
    std::getline(in, line);
    CHECK(line == wanted[slot]);
  }
}

TEST_CASE("a worker that fails does not end an elastic job, and a spare host takes its place", "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "touch $SLOT; case $SLOT in 1) exit 5;; *) await 2;; esac", 1, 2, 2);
  job.hosts.hosts = {{"localhost", 1}, {"127.0.0.1", 1}, {"127.0.0.2", 1}};
  const auto got = run(job);
  CHECK_THAT(got.err, Contains("Process 127.0.0.1[0] exit with status code 5.") &&
                          Contains("host 127.0.0.1 gets no new workers any more"));
  CHECK(std::filesystem::exists(place.path + "/2"));
  CHECK(got.code == 5); // no generation came after the failure
  CHECK_THAT(got.err, Contains("Process name: 127.0.0.1[0]") && Contains("Exit code: 5"));
}

TEST_CASE("a host that the script adds later gets a worker, and a host that it omits loses its worker",
          "[elastic]") {
  const folder place;
  auto job = job_of(place,
                    await_file + "trap 'touch left; exit 3' TERM; touch $SLOT; "
                                 "case $SLOT in 1) await never;; *) await 2; await left;; esac",
                    1, 2, 2);
  job.script = place.script("cd " + place.path +
                            "\necho localhost:1\nif [ -e 1 ]; then echo 127.0.0.2; else echo 127.0.0.1; fi");
  job.slots_per_host = 1;
  const auto got = run(job);
  CHECK(got.code == 0);
  CHECK_THAT(got.err, Contains("more slots: 127.0.0.2:1; fewer slots: 127.0.0.1:1"));
}

TEST_CASE("a script that fails at its first call ends the job, and the error has its output", "[elastic]") {
  const folder place;
  auto job = job_of(place, "touch started", 1, 1, 1);
  job.script = place.script("echo no service >&2; exit 4");
  const auto got = run(job);
  CHECK(got.code == 1);
  CHECK_THAT(got.err,
             Contains("exited with code 4") && Contains("no service") && Contains("job has been shutdown"));
  CHECK_FALSE(std::filesystem::exists(place.path + "/started"));
}

TEST_CASE("a script that does not end is killed and counts as failed", "[elastic]") {
  const folder place;
  auto job = job_of(place, "true", 1, 1, 1);
  job.script = place.script("sleep 1000");
  const auto got = run(job, "0.1");
  CHECK(got.code == 1);
  CHECK_THAT(got.err, Contains("FARANDOLE_DISCOVERY_TIMEOUT"));
}

TEST_CASE("a script runs again after the discovery interval", "[elastic]") {
  const folder place;
  // The worker looks for the file for about half a minute, in which the default of 1 s does not allow so many calls. On a
  // busy machine each look takes longer, as each call does.
  auto job = job_of(place, await_file + "await often 3000", 1, 1, 1);
  job.script =
      place.script("cd " + place.path +
                   "\necho call >> calls\n[ $(wc -l < calls) -lt 60 ] || touch often\necho localhost:1");
  const auto got = run(job, "30", {}, "0.01");
  CHECK(got.code == 0);
  CHECK(std::filesystem::exists(place.path + "/often"));
}

TEST_CASE("a malformed line in later output of a script is reported once, and the job goes on", "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "touch $SLOT; await thrice", 1, 1, 1);
  job.script = place.script("cd " + place.path +
                            "\nif [ ! -e 0 ]; then echo localhost:1; exit; fi\n"
                            "echo localhost:-1\n[ -e once ] && touch thrice\ntouch once");
  const auto got = run(job);
  CHECK(got.code == 0);
  const auto at = got.err.find("line 1 of the discovered hosts, 'localhost:-1'");
  REQUIRE(at != std::string::npos);
  CHECK(got.err.find("'localhost:-1'", at + 60) == std::string::npos);
  CHECK_THAT(got.err, Contains("goes on with the hosts that it knows"));
}

TEST_CASE("a script that prints too much ends the job", "[elastic]") {
  const folder place;
  auto job = job_of(place, "true", 1, 1, 1);
  job.script = place.script("head -c 3000000 /dev/zero");
  const auto got = run(job);
  CHECK(got.code == 1);
  CHECK_THAT(got.err, Contains("printed more than"));
}

TEST_CASE("a discovery command has arguments, which the shell splits", "[elastic]") {
  const folder place;
  auto job = job_of(place, "true", 1, 1, 1);
  job.script =
      place.script("test \"$1\" = 'two words' && echo \"$2:1 # the only one\"") + " 'two words' localhost";
  const auto got = run(job);
  CHECK(got.code == 0);
}

TEST_CASE("SIGTERM to the launcher of an elastic job that waits for hosts ends the job", "[elastic]") {
  const folder place;
  auto job = job_of(place, "true", 1, 2, 2);
  job.script = place.script("kill -TERM $PPID; echo localhost:1");
  const auto got = run(job);
  CHECK(got.code == 128 + SIGTERM);
}

TEST_CASE("a command that cannot be found ends an elastic job with 127 and its name", "[elastic]") {
  const folder place;
  auto job = job_of(place, "", 1, 1, 1);
  job.hosts.hosts = {{"localhost", 1}};
  job.slot_for = [inner = job.slot_for](const worker_scheduler::start& start, const agent_hello* agent) {
    auto slot = inner(start, agent);
    slot->process.arguments = {"no-such-program-anywhere"};
    return slot;
  };
  const auto got = run(job);
  CHECK(got.code == 127);
  CHECK_THAT(got.err, Contains("no-such-program-anywhere: command not found"));
}

namespace {

/// An elastic driver on its own loop; the test plays the rendezvous.
struct driven {
  std::promise<int> code;
  std::promise<std::int32_t> exited, retired;
  std::promise<worker_ending> ended;
  std::promise<bool> complete;
  std::promise<draining> planned, output; ///< answers to a drain
  output_writer writer;
  loop_system system;
  elastic_driver_actor actor;

  explicit driven(const elastic_job& job, std::chrono::nanoseconds kill_after = patience) {
    elastic_driver_spec spec;
    spec.hands = std::make_shared<hands>(real_hands(system.get(), {.writer = &writer}));
    spec.scheduler = job.scheduler;
    spec.hosts = job.hosts;
    if (!job.script.empty()) {
      spec.script.emplace();
      spec.script->script.arguments = {job.script};
      spec.script->script.environment = {"PATH=/usr/bin:/bin"};
      spec.script->interval = std::chrono::milliseconds(1);
    }
    spec.times.kill_after = kill_after;
    spec.slot_for = job.slot_for;
    spec.slot_exited = [this, first = true](std::int32_t slot, const std::string&) mutable {
      if (std::exchange(first, false))
        exited.set_value(slot);
    };
    spec.worker_ended = [this, first = true](const worker_ending& ending) mutable {
      if (std::exchange(first, false))
        ended.set_value(ending);
    };
    spec.slot_retired = [this](std::int32_t slot) { retired.set_value(slot); };
    spec.no_more_starts = [this] { complete.set_value(true); };
    spec.answer_drain = [this](const drain_answered& answer) {
      // This runs on the loop's thread, where Catch's assertions are not allowed.
      (answer.value.all_out ? output : planned).set_value(answer.link == 7 ? answer.value : draining{});
    };
    spec.finished = [this](int result) { code.set_value(result); };
    actor = system.get().spawn(elastic_driver, spec);
    caf::anon_send(actor, start_atom::value);
  }

  template <class T>
  static T soon(std::promise<T>& promise) {
    auto value = promise.get_future();
    REQUIRE(value.wait_for(patience) == std::future_status::ready);
    return value.get();
  }
};

} // namespace

TEST_CASE("a worker whose host is removed is reported to the rendezvous, and its exit code is ignored",
          "[elastic]") {
  const folder place;
  auto job = job_of(
      place, await_file + "touch $SLOT; case $SLOT in 1) await go; exit 3;; *) await done;; esac", 1, 2, 2);
  job.script =
      place.script("cd " + place.path + "\necho localhost:1\nif [ ! -e 1 ]; then echo 127.0.0.1:1; fi");
  driven driver(job);
  CHECK(driven::soon(driver.retired) == 1);
  std::ofstream(place.path + "/go");
  CHECK(driven::soon(driver.exited) == 1);
  std::ofstream(place.path + "/done");
  CHECK(driven::soon(driver.code) == 0);
}

TEST_CASE(
    "a worker that was not yet a member of the job when its host was removed, and ignores SIGTERM, is killed",
    "[elastic]") {
  const folder place;
  auto job = job_of(
      place, await_file + "trap '' TERM; touch $SLOT; case $SLOT in 1) await never;; *) await done;; esac", 1,
      2, 2);
  job.script =
      place.script("cd " + place.path + "\necho localhost:1\nif [ ! -e 1 ]; then echo 127.0.0.1:1; fi");
  driven driver(job, std::chrono::milliseconds(1));
  CHECK(driven::soon(driver.exited) == 1);
  CHECK(driven::soon(driver.ended).manner == process_end{128 + SIGKILL, SIGKILL}.text());
  std::ofstream(place.path + "/done");
  CHECK(driven::soon(driver.code) == 0);
}

TEST_CASE("a job closes the copies of a worker's output when the worker has ended, or cannot be started",
          "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "echo out; echo err >&2; await done", 1, 2, 2);
  job.hosts.hosts = {{"localhost", 1}, {"127.0.0.1", 1}};
  pipe_ends pipe;
  std::promise<output_writer*> writer;
  job.slot_for = [&, files = writer.get_future().share(),
                  inner = job.slot_for](const worker_scheduler::start& start, const agent_hello* agent) {
    auto slot = inner(start, agent);
    for (int number : {0, 1})
      slot->files[number] =
          *files.get()->open(place.path + "/copies/" + std::to_string(start.slot) + std::to_string(number));
    if (start.slot == 1)
      slot->process.arguments = {"no-such-program-anywhere"};
    return slot;
  };
  const auto open_copies = [&] {
    int count = 0;
    std::error_code problem; // of the descriptor that lists the folder
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      count +=
          std::filesystem::read_symlink(entry.path(), problem).string().starts_with(place.path + "/copies/");
    return count;
  };
  driven driver(job);
  writer.set_value(&driver.writer);
  CHECK(driven::soon(driver.exited) == 1);
  std::ofstream(place.path + "/done");
  CHECK(driven::soon(driver.code) == 127);    // no generation came after the failure
  driver.writer.write(pipe.write.get(), "x"); // after all that was queued before
  char letter = 0;
  REQUIRE(::read(pipe.read.get(), &letter, 1) == 1);
  CHECK(open_copies() == 0);
}

TEST_CASE("a discoverer ends while the name of a host is being resolved", "[elastic]") {
  std::promise<void> asked, answer, ended;
  loop_system system;
  discoverer_spec spec;
  spec.script.arguments = {"echo", "localhost:1"};
  spec.script.environment = {"PATH=/usr/bin:/bin"};
  spec.is_remote = [&asked, answered = answer.get_future().share()](const std::string&) {
    asked.set_value();
    answered.wait();
    return false;
  };
  const auto actor = system.get().spawn(discoverer, spec, discovery_owner_actor{});
  actor->attach_functor([&ended] { ended.set_value(); });
  caf::anon_send(actor, run_atom::value);
  CHECK(asked.get_future().wait_for(patience) == std::future_status::ready);
  caf::anon_send(actor, close_atom::value);
  CHECK(ended.get_future().wait_for(patience) == std::future_status::ready);
  answer.set_value();
}

TEST_CASE("the driver answers a drain at once with the leaving ranks, and again when they have ended",
          "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "case $SLOT in 1) await go; exit 3;; *) await done;; esac", 1, 2, 2);
  job.hosts.hosts = {{"localhost", 1}, {"127.0.0.1", 1}};
  driven driver(job);
  caf::anon_send(driver.actor, generation_formed{1, {1, 0}});
  caf::anon_send(driver.actor, drain_asked{7, {wire_version, {}, {"127.0.0.1"}}});
  const auto plan = driven::soon(driver.planned);
  CHECK(plan == draining{"", {{0, 1, "127.0.0.1"}}, false});
  CHECK(driven::soon(driver.retired) == 1);
  std::ofstream(place.path + "/go");
  CHECK(driven::soon(driver.output).leavers == plan.leavers);
  std::ofstream(place.path + "/done");
  CHECK(driven::soon(driver.code) == 0);
}

TEST_CASE("a worker that was told to leave is retired, and its exit code is ignored", "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "case $SLOT in 1) await go; exit 3;; *) await done;; esac", 1, 2, 2);
  job.hosts.hosts = {{"localhost", 2}};
  driven driver(job);
  caf::anon_send(driver.actor, generation_formed{1, {0, 1}});
  caf::anon_send(driver.actor, slot_leaving{1});
  CHECK(driven::soon(driver.retired) == 1);
  std::ofstream(place.path + "/go");
  CHECK(driven::soon(driver.exited) == 1);
  CHECK_FALSE(driven::soon(driver.ended).lost);
  std::ofstream(place.path + "/done");
  CHECK(driven::soon(driver.code) == 0);
}

TEST_CASE("a member that fails while the job goes on is lost", "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "case $SLOT in 1) await go; exit 3;; *) await done;; esac", 1, 2, 2);
  job.hosts.hosts = {{"localhost", 2}};
  driven driver(job);
  caf::anon_send(driver.actor, generation_formed{1, {0, 1}});
  std::ofstream(place.path + "/go");
  const auto ending = driven::soon(driver.ended);
  CHECK(ending.slot == 1);
  CHECK(ending.manner == "exited with code 3");
  CHECK_FALSE(ending.told_to_end);
  CHECK(ending.lost);
  caf::anon_send(driver.actor, interrupt_atom::value, SIGTERM);
  CHECK(driven::soon(driver.code) != 0);
}

TEST_CASE("once a worker has succeeded, the rendezvous learns that no new members come", "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "case $SLOT in 1) await go;; *) await done;; esac", 1, 2, 2);
  job.hosts.hosts = {{"localhost", 2}};
  driven driver(job);
  caf::anon_send(driver.actor, generation_formed{1, {0, 1}});
  auto told = driver.complete.get_future();
  CHECK(told.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  std::ofstream(place.path + "/go");
  CHECK(told.wait_for(std::chrono::minutes(1)) == std::future_status::ready);
  std::ofstream(place.path + "/done");
  CHECK(driven::soon(driver.code) == 0);
}

TEST_CASE("each generation counts as a reset, and the reset limit ends the job", "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "await never", 1, 2, 2);
  job.hosts.hosts = {{"localhost", 2}};
  job.scheduler.reset_limit = 1;
  driven driver(job);
  for (std::uint64_t generation : {1, 2, 3})
    caf::anon_send(driver.actor, generation_formed{generation, {0, 1}});
  CHECK(driven::soon(driver.code) == 1);
}

TEST_CASE("a failure that a later generation has survived does not fail the job", "[elastic]") {
  const folder place;
  auto job = job_of(place, await_file + "case $SLOT in 1) exit 3;; *) await done;; esac", 1, 2, 2);
  job.hosts.hosts = {{"localhost", 1}, {"127.0.0.1", 1}};
  driven driver(job);
  CHECK(driven::soon(driver.exited) == 1);
  caf::anon_send(driver.actor, generation_formed{1, {0}});
  std::ofstream(place.path + "/done");
  CHECK(driven::soon(driver.code) == 0);
}

TEST_CASE("a failed host is in the journal while the job runs, and no longer once the job has ended",
          "[elastic]") {
  const folder place;
  const auto journal = place.path + "/journal";
  // The last worker copies the journal as a killed launcher would leave it.
  auto job = job_of(place,
                    await_file + "touch $SLOT; case $SLOT in 0) await 0.end;; 1) exit 5;; *) n=0; " +
                        "until grep -q 127.0.0.1 journal; do n=$((n+1)); [ $n -lt " + looks +
                        " ] || exit 99; sleep 0.01; done; cp journal kept; touch 0.end;; esac",
                    1, 2, 2);
  job.hosts.hosts = {{"localhost", 1}, {"127.0.0.1", 1}, {"127.0.0.2", 1}};
  const auto got = run(job, "30", journal);
  CHECK_THAT(got.err, Contains("host 127.0.0.1 gets no new workers any more"));
  CHECK(opened(place.path + "/kept")->failed() == std::vector<failed_host>{{"127.0.0.1", 1, {}, true}});
  CHECK(opened(journal)->failed().empty());
}

TEST_CASE("a launcher with the journal of a killed launcher leaves out the failed hosts", "[elastic]") {
  const folder place;
  const auto path = place.path + "/journal";
  {
    const auto book = opened(path);
    REQUIRE_FALSE(book->remember(job_image{}));
    REQUIRE_FALSE(book->remember(std::vector<failed_host>{{"127.0.0.1", 1, {}, true}}));
  }
  auto job = job_of(place, "echo $HOST > $SLOT", 1, 1, 2);
  job.hosts.hosts = {{"127.0.0.1", 1}, {"localhost", 1}};
  const auto got = run(job, "30", path);
  CHECK(got.code == 0);
  CHECK_THAT(got.err, Contains("host 127.0.0.1 gets no new workers at all") && Contains("the journal"));
  std::string host;
  std::getline(std::ifstream(place.path + "/0"), host);
  CHECK(host == "localhost");
  CHECK_FALSE(std::filesystem::exists(place.path + "/1"));
}
