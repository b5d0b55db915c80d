#include "messages/record/packed_record.hpp"

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "messages/record/event_reader.hpp"
#include "messages/record/event_recorder.hpp"
#include "messages/values/descriptor.hpp"

using namespace farandole;

namespace {

descriptor memory() {
  return descriptor{::memfd_create("packed-record-test", MFD_CLOEXEC)};
}

std::string bytes_of(const descriptor& file) {
  std::string bytes(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
  REQUIRE(::pread(file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return bytes;
}

descriptor file_with(const std::string& bytes) {
  auto file = memory();
  REQUIRE(::pwrite(file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return file;
}

/// A record with some events of rank 3, packed.
descriptor packed_example(std::string* unpacked = nullptr) {
  auto file = event_region::create(16384);
  REQUIRE(file);
  auto region = event_region::map(file->get(), 16384);
  REQUIRE(region);
  event_recorder recorder(*region, tick_clock(false));
  recorder.describe({7, 1, 3, 4, 3, "alpha"});
  for (std::uint64_t i = 0; i < 10'000; ++i)
    recorder.record(event_kind::submitted, recorder.intern("t" + std::to_string(i % 100)), 0, 0, i, 0);
  auto packed = memory();
  REQUIRE_FALSE(pack_record(file->get(), packed.get()));
  if (unpacked)
    *unpacked = bytes_of(*file);
  return packed;
}

} // namespace

TEST_CASE("a file that cannot be read from its beginning leaves no descriptor open") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const descriptor out{ends[0]}, in{ends[1]};
  const auto next = [] { return memory().get(); };
  const auto before = next();
  CHECK_FALSE(rank_in_packed_record(out.get()));
  CHECK(next() == before);
}

TEST_CASE("a record is the same after it was packed and unpacked, and takes less space") {
  std::string before;
  const auto packed = packed_example(&before);
  CHECK(is_packed_record(packed.get()));
  CHECK(rank_in_packed_record(packed.get()) == 3);
  const auto unpacked = memory();
  REQUIRE_FALSE(unpack_record(packed.get(), unpacked.get()));
  CHECK((bytes_of(unpacked) == before));
  CHECK(bytes_of(packed).size() < 10'000 * sizeof(event) / 2);
}

TEST_CASE("a packed record that was cut off or changed is refused") {
  const auto whole = bytes_of(packed_example());
  for (std::size_t size = 0; size < whole.size(); size += whole.size() / 20 + 1) {
    CAPTURE(size);
    CHECK(unpack_record(file_with(whole.substr(0, size)).get(), memory().get()));
  }
  auto changed = whole;
  changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 0x10);
  CHECK(unpack_record(file_with(changed).get(), memory().get()));
}

TEST_CASE("a file that is no packed record is refused") {
  CHECK_FALSE(is_packed_record(file_with("").get()));
  CHECK_FALSE(is_packed_record(file_with("FDEVCRD1").get()));
  const auto problem = unpack_record(file_with(std::string(100, 'x')).get(), memory().get());
  CHECK(problem.text == "this is no complete trace: it does not begin with the mark of one");
  CHECK_FALSE(rank_in_packed_record(file_with(std::string(100, 'x')).get()));
}
