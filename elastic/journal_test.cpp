#include "elastic/journal.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

/// A disk on which a renamed file is there, although its rename is reported as not synced.
class forgetful_disk final : public disk {
public:
  std::unique_ptr<disk_file> open(const std::string& path) override { return local_->open(path); }
  std::unique_ptr<disk_file> create(const std::string& path) override { return local_->create(path); }
  bool rename(const std::string& from, const std::string& to) override {
    const bool done = local_->rename(from, to);
    errno = EIO;
    return done && !fails;
  }
  std::unique_ptr<disk_lock> lock(const std::string& path, std::string& holder) override {
    return local_->lock(path, holder);
  }

  bool fails = false;

private:
  std::shared_ptr<disk> local_ = local_disk();
};

std::unique_ptr<journal> opened(const std::string& path) {
  auto opened = journal::open(path);
  INFO((opened ? std::string() : opened.error().text));
  REQUIRE(opened);
  return std::move(*opened);
}

std::string refusal(const std::string& path) {
  const auto opened = journal::open(path);
  return opened ? std::string() : opened.error().text;
}

job_image image_of(std::uint64_t generation) {
  job_image image;
  image.epoch = 1;
  image.generation = generation;
  image.slot_images = {{0, true, true, false, false, 0, {}, "host", "alpha", "127.0.0.1:1", 77}};
  return image;
}

} // namespace

TEST_CASE("a reopened journal has the last image that was remembered") {
  const temporary_folder place;
  CHECK_FALSE(opened(place.file("journal"))->found());
  CHECK_FALSE(std::filesystem::exists(place.file("journal")));
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    const auto book = opened(place.file("journal"));
    REQUIRE_FALSE(book->remember(image_of(generation)));
    REQUIRE_FALSE(book->remember(image_of(generation + 1)));
  }
  const auto book = opened(place.file("journal"));
  CHECK(book->repaired().empty());
  REQUIRE(book->found());
  CHECK(*book->found() == image_of(4));
}

TEST_CASE("an unchanged image is not written again") {
  const temporary_folder place;
  const auto book = opened(place.file("journal"));
  REQUIRE_FALSE(book->remember(image_of(1)));
  const auto size = std::filesystem::file_size(place.file("journal"));
  REQUIRE_FALSE(book->remember(image_of(1)));
  CHECK(std::filesystem::file_size(place.file("journal")) == size);
}

TEST_CASE("failed hosts are kept across reopening until other hosts are remembered") {
  const temporary_folder place;
  const std::vector<failed_host> two{{"a", 2, {}, true}, {"b", 1, wall_time{std::chrono::seconds{9}}, false}};
  {
    const auto book = opened(place.file("journal"));
    CHECK(book->failed().empty());
    REQUIRE_FALSE(book->remember(image_of(1)));
    REQUIRE_FALSE(book->remember(two));
    const auto size = std::filesystem::file_size(place.file("journal"));
    REQUIRE_FALSE(book->remember(two));
    CHECK(std::filesystem::file_size(place.file("journal")) == size);
  }
  for (std::uint64_t life = 2; life <= 3; ++life) {
    const auto book = opened(place.file("journal"));
    CHECK(book->failed() == two);
    REQUIRE_FALSE(book->remember(image_of(life))); // writes a new file
  }
  const auto book = opened(place.file("journal"));
  CHECK(book->failed() == two);
  CHECK(*book->found() == image_of(3));
  REQUIRE_FALSE(book->remember(std::vector<failed_host>{}));
  REQUIRE_FALSE(book->remember(image_of(4)));
  std::ifstream file(place.file("journal"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  CHECK(replay(std::as_bytes(std::span(text)))->failed.empty());
}

TEST_CASE("a blacklist that can be written does not hide that the job could not be written") {
  const temporary_folder place;
  const auto book = opened(place.file("journal"));
  REQUIRE_FALSE(book->remember(image_of(1)));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit full{std::filesystem::file_size(place.file("journal")) + 40, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  const auto problem = book->remember(image_of(2));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(problem);
  CHECK_FALSE(book->remember(std::vector<failed_host>{{"a", 1, {}, true}}));
  CHECK(book->behind());
  CHECK_FALSE(book->remember(image_of(2)));
  CHECK_FALSE(book->behind());
}

TEST_CASE("a torn end is cut off, and reported") {
  const temporary_folder place;
  REQUIRE_FALSE(opened(place.file("journal"))->remember(image_of(1)));
  const auto whole = std::filesystem::file_size(place.file("journal"));
  std::ofstream(place.file("journal"), std::ios::app) << "half a record";
  const auto book = opened(place.file("journal"));
  CHECK_THAT(book->repaired(),
             Catch::Contains(place.file("journal")) && Catch::Contains(std::to_string(whole)));
  CHECK(std::filesystem::file_size(place.file("journal")) == whole);
  CHECK(*book->found() == image_of(1));
}

TEST_CASE("a damaged journal is refused and left unchanged") {
  const temporary_folder place;
  {
    const auto book = opened(place.file("journal"));
    REQUIRE_FALSE(book->remember(image_of(1)));
    REQUIRE_FALSE(book->remember(image_of(2)));
  }
  std::fstream(place.file("journal"), std::ios::in | std::ios::out).seekp(60).put('x');
  const auto size = std::filesystem::file_size(place.file("journal"));
  CHECK_THAT(refusal(place.file("journal")), Catch::Contains(place.file("journal")) &&
                                                 Catch::Contains("damaged at byte 16 (record 1)") &&
                                                 Catch::Contains("--ignore-journal-damage"));
  CHECK(std::filesystem::file_size(place.file("journal")) == size);
}

TEST_CASE("a damaged last record is refused, and not taken for a torn end") {
  const temporary_folder place;
  std::uintmax_t before_last = 0;
  {
    const auto book = opened(place.file("journal"));
    REQUIRE_FALSE(book->remember(image_of(1)));
    before_last = std::filesystem::file_size(place.file("journal"));
    REQUIRE_FALSE(book->remember(image_of(2)));
  }
  std::fstream(place.file("journal"), std::ios::in | std::ios::out)
      .seekp(static_cast<std::streamoff>(before_last) + 50)
      .put('x');
  CHECK_THAT(refusal(place.file("journal")),
             Catch::Contains("damaged at byte " + std::to_string(before_last)));
}

TEST_CASE("with go_on_before_it a damaged journal continues before the damage and keeps a copy") {
  const temporary_folder place;
  std::uintmax_t before_last = 0;
  {
    const auto book = opened(place.file("journal"));
    REQUIRE_FALSE(book->remember(image_of(1)));
    before_last = std::filesystem::file_size(place.file("journal"));
    REQUIRE_FALSE(book->remember(image_of(2)));
  }
  std::fstream(place.file("journal"), std::ios::in | std::ios::out)
      .seekp(static_cast<std::streamoff>(before_last) + 50)
      .put('x');
  const auto content_of = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  };
  const auto spoilt = content_of(place.file("journal"));
  {
    auto book = journal::open(place.file("journal"), local_disk(), journal::damaged::go_on_before_it);
    REQUIRE(book);
    CHECK((*book)->found() == image_of(1));
    CHECK_THAT((*book)->repaired(), Catch::Contains("damaged at byte " + std::to_string(before_last)) &&
                                        Catch::Contains(place.file("journal") + ".damaged"));
    CHECK(content_of(place.file("journal")) ==
          spoilt); // the file is unchanged until there is an image to write
    CHECK(content_of(place.file("journal") + ".damaged") == spoilt);
    REQUIRE_FALSE((*book)->remember(image_of(3)));
  }
  CHECK(opened(place.file("journal"))->found() == image_of(3));
}

TEST_CASE("symbolic links beside a journal are not followed") {
  const temporary_folder place;
  const auto elsewhere = place.file("journal") + ".elsewhere";
  std::ofstream(elsewhere) << "of somebody else";
  std::filesystem::create_symlink(elsewhere, place.file("journal") + ".new");
  {
    const auto book = opened(place.file("journal"));
    REQUIRE_FALSE(book->remember(image_of(1)));
  }
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(place.file("journal"))));
  CHECK(std::filesystem::file_size(elsewhere) == 16);
  std::filesystem::remove(place.file("journal") + ".lock");
  std::filesystem::create_symlink(elsewhere, place.file("journal") + ".lock");
  CHECK_THAT(refusal(place.file("journal")), Catch::Contains(".lock is a symbolic link"));
  CHECK(std::filesystem::file_size(elsewhere) == 16);
}

TEST_CASE("a path that is no regular file is refused") {
  const temporary_folder place;
  std::filesystem::create_symlink("/dev/full", place.file("journal"));
  CHECK_THAT(refusal(place.file("journal")), Catch::Contains("no regular file"));
}

TEST_CASE("a journal that is in use is refused with the process that has it") {
  const temporary_folder place;
  const auto book = opened(place.file("journal"));
  const auto reason = refusal(place.file("journal"));
  CHECK_THAT(reason, Catch::Contains(place.file("journal")) &&
                         Catch::Contains("process " + std::to_string(::getpid()) + " on "));
}

TEST_CASE("a journal's size is bounded by a few snapshots") {
  const temporary_folder place;
  const auto book = opened(place.file("journal"));
  auto image = image_of(1);
  for (std::int32_t slot = 1; slot < 40; ++slot) {
    image.slot_images.push_back(image.slot_images.front());
    image.slot_images.back().slot = slot;
  }
  std::uintmax_t longest = 0;
  for (int i = 0; i < 2000; ++i) {
    image.changes = static_cast<std::uint64_t>(i);
    image.slot_images[static_cast<std::size_t>(i % 40)].last_rank = i % 7;
    REQUIRE_FALSE(book->remember(image));
    longest = std::max(longest, std::filesystem::file_size(place.file("journal")));
  }
  CHECK(longest < 80 << 10);
  const auto content = [&] {
    std::ifstream file(place.file("journal"), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return replay(std::as_bytes(std::span(text)));
  }();
  REQUIRE(content);
  CHECK(*content->job == image);
}

TEST_CASE("after a new file could not be synced, writes go to the file of the journal's name") {
  const temporary_folder place;
  const auto disk = std::make_shared<forgetful_disk>();
  auto made = journal::open(place.file("journal"), disk);
  REQUIRE(made);
  auto book = std::move(*made);
  auto image = image_of(1);
  REQUIRE_FALSE(book->remember(image));
  disk->fails = true;
  while (!book->behind()) { // until the file is large enough to be replaced
    ++image.changes;
    image.slot_images.front().last_rank = static_cast<std::int32_t>(image.changes % 7);
    static_cast<void>(book->remember(image));
    REQUIRE(image.changes < 10000);
  }
  disk->fails = false;
  const std::vector<failed_host> failed{{"a", 1, {}, true}};
  REQUIRE_FALSE(book->remember(failed));
  book.reset();
  CHECK(opened(place.file("journal"))->failed() == failed);
}

TEST_CASE("a journal that cannot be written is reported once, and continues when it can be") {
  const temporary_folder place;
  const auto book = opened(place.file("journal"));
  REQUIRE_FALSE(book->remember(image_of(1)));
  const auto size = std::filesystem::file_size(place.file("journal"));
  // For this process the disk is full.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit full{size + 40, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  const auto first = book->remember(image_of(2));
  const auto second = book->remember(image_of(3));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto third = [&] {
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
    auto problem = book->remember(std::vector<failed_host>{{"a", 1, {}, true}});
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    return problem;
  }();
  CHECK_FALSE(third);
  CHECK(book->behind());
  CHECK_THAT(first.text, Catch::Contains(place.file("journal")) && Catch::Contains("File too large"));
  CHECK_FALSE(second);
  CHECK(std::filesystem::file_size(place.file("journal")) == size); // no partial record remains
  CHECK_FALSE(book->remember(image_of(4)));
  std::ifstream file(place.file("journal"), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto content = replay(std::as_bytes(std::span(text)));
  CHECK(*content->job == image_of(4));
  CHECK(content->failed == std::vector<failed_host>{{"a", 1, {}, true}});
  CHECK_FALSE(book->behind());
}
