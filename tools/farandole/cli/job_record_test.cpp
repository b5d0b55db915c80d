#include "tools/farandole/cli/job_record.hpp"

#include <catch2/catch.hpp>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

job_record sound(const std::string& name, bool elastic = true) {
  return {name, 4711, elastic, "127.0.0.1", 9, "", 0, "hidden", "python train.py"};
}

/// A job of a fixed size with other hosts.
job_record with_agents(const std::string& name) {
  auto job = sound(name, false);
  job.agent_ip = "10.0.0.1";
  job.agent_port = 10;
  return job;
}

std::string refusal(const std::vector<job_record>& running, const std::string& wanted = {}) {
  const auto job = choose_job(running, wanted);
  return job ? "none" : job.error().text;
}

mode_t mode_of(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 0777;
}

using Catch::Contains;

} // namespace

TEST_CASE("a job's name consists of its script and its launcher's process", "[job record]") {
  CHECK(job_name({"python", "-u", "dir/my train.py", "x.py"}, 7) == "my_train-7");
  CHECK(job_name({"/usr/bin/sleep", "9"}, 7) == "sleep-7");
}

TEST_CASE("a job record is read as it was written", "[job record]") {
  auto both = with_agents("d-4");
  both.elastic = true;
  for (const auto& job : {sound("a-1"), sound("b-2", false), with_agents("c-3"), both}) {
    const auto read = parse_job_record(to_text(job));
    REQUIRE(read);
    CHECK(*read == job);
  }
  auto sly = sound("a-1");
  sly.command = "python\nsecret mine";
  CHECK(parse_job_record(to_text(sly))->secret == "hidden");
  CHECK_FALSE(parse_job_record("name a\nelastic 1\nip 127.0.0.1\nport 70000\nsecret s\n"));
  CHECK_FALSE(parse_job_record("name a\nelastic 1\nport 7\nsecret s\n"));
  CHECK_FALSE(parse_job_record("name a\nip 127.0.0.1\nport 7\n"));
  CHECK_FALSE(parse_job_record("name a\nip 127.0.0.1\nport 9\nagent_port 7\nsecret s\n"));
  CHECK_FALSE(parse_job_record("nonsense"));
}

TEST_CASE("a single elastic job needs no name, and several are listed with their names", "[job record]") {
  CHECK(choose_job({sound("a-1"), sound("b-2", false)}, "")->name == "a-1");
  CHECK(choose_job({sound("a-1"), sound("c-3")}, "c-3")->name == "c-3");
  CHECK_THAT(refusal({sound("a-1"), sound("c-3")}),
             Contains("name the one") && Contains("a-1") && Contains("c-3") && Contains("train.py"));
  CHECK_THAT(refusal({sound("a-1")}, "z-9"), Contains("there is no job z-9") && Contains("a-1"));
  CHECK_THAT(refusal({}), Contains("no job of yours runs here"));
  CHECK_THAT(refusal({sound("b-2", false)}), Contains("b-2 is not elastic"));
  CHECK_THAT(refusal({sound("a-1"), sound("b-2", false)}, "b-2"), Contains("b-2 is not elastic"));
}

TEST_CASE("a command that any job can serve needs a name only if several jobs run", "[job record]") {
  CHECK(choose_job({sound("b-2", false)}, "", job_kind::any)->name == "b-2");
  CHECK(choose_job({sound("a-1"), sound("b-2", false)}, "b-2", job_kind::any)->name == "b-2");
  const auto several = choose_job({sound("a-1"), sound("b-2", false)}, "", job_kind::any);
  REQUIRE_FALSE(several);
  CHECK_THAT(several.error().text, Contains("name the one") && Contains("a-1") && Contains("b-2"));
  const auto none = choose_job({}, "", job_kind::any);
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().text, Contains("no job of yours runs here"));
}

TEST_CASE("a job's file is private to its user, is found while it is held, and is then removed",
          "[job record]") {
  const temporary_folder place;
  const auto inside = place.file("jobs");
  {
    auto file = job_file::write({inside}, sound("a-1"));
    REQUIRE(file);
    CHECK(mode_of(inside) == 0700);
    CHECK(mode_of(file->path()) == 0600);
    const auto found = running_jobs({place.file("none"), inside});
    REQUIRE(found.size() == 1);
    CHECK(found[0] == sound("a-1"));
    CHECK(read_job(file->path())->name == "a-1");
  }
  CHECK(std::filesystem::is_empty(inside));
}

TEST_CASE("a record left behind by a killed launcher is no job, and is removed", "[job record]") {
  const temporary_folder place;
  const auto path = place.file("a-1.job");
  std::ofstream(path) << to_text(sound("a-1"));
  ::chmod(path.c_str(), 0600);
  CHECK(running_jobs({place.path()}).empty());
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("the next launcher removes a record left behind by a killed one", "[job record]") {
  const temporary_folder place;
  const auto path = place.file("a-1.job");
  std::ofstream(path) << to_text(sound("a-1"));
  ::chmod(path.c_str(), 0600);
  const auto running = job_file::write({place.path()}, sound("b-2"));
  REQUIRE(running);
  CHECK_FALSE(std::filesystem::exists(path));
  const auto next = job_file::write({place.path()}, sound("c-3"));
  REQUIRE(next);
  CHECK(running_jobs({place.path()}).size() == 2);
}

TEST_CASE("in a folder that another user may have made no record is read, written or removed",
          "[job record]") {
  const temporary_folder place;
  const auto planted = place.file("planted"), target = place.file("target");
  for (const auto& location : {planted, target}) {
    std::filesystem::create_directory(location);
    std::ofstream(location + "/a-1.job") << to_text(sound("a-1"));
    ::chmod((location + "/a-1.job").c_str(), 0600);
  }
  ::chmod(target.c_str(), 0700);
  std::string searched = planted;
  SECTION("others may write to the folder") {
    ::chmod(planted.c_str(), 0777);
  }
  SECTION("others may read the folder") {
    ::chmod(planted.c_str(), 0750);
  }
  SECTION("the folder is a link to a folder of the same user") {
    searched = place.file("link");
    std::filesystem::create_directory_symlink(target, searched);
  }
  SECTION("the folder belongs to another user") {
    if (::geteuid() != 0)
      return;
    ::chmod(planted.c_str(), 0700);
    REQUIRE(::chown(planted.c_str(), 12345, 12345) == 0);
  }
  CHECK(running_jobs({searched}).empty());
  CHECK_FALSE(job_file::write({searched}, sound("b-2")));
  CHECK(std::filesystem::exists(searched + "/a-1.job"));
  CHECK(std::distance(std::filesystem::directory_iterator(searched), {}) == 1);
}

TEST_CASE("a link in the place of a record is neither followed nor removed", "[job record]") {
  const temporary_folder place;
  const auto own = place.file("own"), target = place.file("target.job"), link = own + "/a-1.job";
  REQUIRE(::mkdir(own.c_str(), 0700) == 0);
  std::ofstream(target) << to_text(sound("a-1"));
  ::chmod(target.c_str(), 0600);
  std::filesystem::create_symlink(target, link);
  CHECK(running_jobs({own}).empty());
  CHECK(std::filesystem::exists(target));
  CHECK(std::filesystem::is_symlink(link));
}

TEST_CASE("a folder or a file that others may use is not used", "[job record]") {
  const temporary_folder place;
  const auto open = place.file("open"), other = place.file("own");
  std::filesystem::create_directory(open);
  ::chmod(open.c_str(), 0777);
  auto file = job_file::write({open, other}, sound("a-1"));
  REQUIRE(file);
  CHECK(file->path() == other + "/a-1.job");
  CHECK_FALSE(job_file::write({open}, sound("a-1")));
  const auto link = place.file("link");
  std::filesystem::create_directory_symlink(other, link);
  CHECK_FALSE(job_file::write({link}, sound("a-1")));
  ::chmod(file->path().c_str(), 0644);
  CHECK(running_jobs({other}).empty());
  CHECK_FALSE(read_job(file->path()));
}
