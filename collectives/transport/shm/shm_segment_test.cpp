#include "collectives/transport/shm/shm_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "collectives/transport/paths_testing.hpp"

using namespace farandole;
using namespace farandole::testing;

namespace {

segment_layout some_layout() {
  segment_layout layout;
  layout.generation = 7;
  layout.set = 2;
  layout.members = 3;
  layout.chunk_bytes = 5000;
  layout.fast_path_bytes = 10'000;
  return layout;
}

descriptor again(int number) {
  return descriptor(fcntl(number, F_DUPFD_CLOEXEC, 0));
}

/// A sealed memfd of that size with the content `content`, which shm_segment did not create.
descriptor forged(std::size_t size, const void* content, std::size_t bytes) {
  descriptor result(memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(result.get(), static_cast<off_t>(size)) == 0);
  REQUIRE(pwrite(result.get(), content, bytes, 0) == static_cast<ssize_t>(bytes));
  REQUIRE(fcntl(result.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  return result;
}

} // namespace

TEST_CASE("members read each other's writes, and the areas of a segment do not overlap") {
  auto segments = make_segments(some_layout());
  std::byte mark{1};
  for (std::uint32_t member = 0; member < 3; ++member) {
    segments[0]->counters(member).packed.publish(member + 10);
    for (std::uint32_t slot = 0; slot < 4; ++slot)
      std::memset(segments[member]->slot(member, slot),
                  static_cast<int>(mark = std::byte(1 + member * 5 + slot)), 5000);
    std::memset(segments[member]->fast_path(member).data(), 100 + static_cast<int>(member), 10'000);
  }
  for (std::uint32_t member = 0; member < 3; ++member) {
    CHECK(segments[1]->counters(member).packed.value.load() == member + 10);
    CHECK(segments[1]->counters(member).reduced.value.load() == 0);
    CHECK(segments[1]->fast_path(member).size() == 10'000);
    CHECK(segments[1]->fast_path(member)[9'999] == std::byte(100 + member));
    for (std::uint32_t slot = 0; slot < 4; ++slot)
      for (std::size_t at : {0u, 4999u})
        CHECK(segments[2]->slot(member, slot)[at] == std::byte(1 + member * 5 + slot));
  }
}

TEST_CASE("a segment can be neither shrunk nor grown, and takes no further seals") {
  auto made = shm_segment::create(some_layout());
  const int number = (*made)->shared_descriptor();
  CHECK(ftruncate(number, 4096) != 0);
  CHECK(ftruncate(number, 1 << 30) != 0);
  CHECK(fcntl(number, F_ADD_SEALS, F_SEAL_WRITE) != 0);
  CHECK((fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a segment is adopted only if it is the expected one") {
  const auto layout = some_layout();
  auto made = shm_segment::create(layout);
  const int number = (*made)->shared_descriptor();
  CHECK(shm_segment::adopt(again(number), layout));

  auto other = layout;
  SECTION("another generation") {
    other.generation = 8;
  }
  SECTION("another set") {
    other.set = 3;
  }
  SECTION("another number of members") {
    other.members = 2;
  }
  SECTION("another shape of the same size") {
    other.chunk_bytes = 5001;
  }
  const auto adopted = shm_segment::adopt(again(number), other);
  REQUIRE_FALSE(adopted);
  CHECK(adopted.error().kind == error_kind::precondition);
}

TEST_CASE("a file that is not a sealed segment is refused for every size") {
  const auto layout = some_layout();
  const auto refused = [&](descriptor value) {
    const auto adopted = shm_segment::adopt(std::move(value), layout);
    return !adopted && adopted.error().kind != error_kind::none;
  };
  const char garbage[64] = "this is not the header of a segment";
  CHECK(refused(forged(layout.total_bytes(), garbage, sizeof garbage)));
  CHECK(refused(forged(100, garbage, sizeof garbage)));
  CHECK(refused(descriptor()));
  CHECK(refused(descriptor(open("/dev/null", O_RDWR | O_CLOEXEC))));

  // A valid header is refused in memory that its owner can still shrink.
  auto made = shm_segment::create(layout);
  std::vector<char> page(4096);
  REQUIRE(pread((*made)->shared_descriptor(), page.data(), page.size(), 0) == 4096);
  CHECK_FALSE(refused(forged(layout.total_bytes(), page.data(), page.size())));
  descriptor loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(loose.get(), static_cast<off_t>(layout.total_bytes())) == 0);
  REQUIRE(pwrite(loose.get(), page.data(), page.size(), 0) == 4096);
  CHECK(refused(std::move(loose)));
}

TEST_CASE("a segment with a layout out of range is not created") {
  auto layout = some_layout();
  SECTION("no members") {
    layout.members = 0;
  }
  SECTION("too many members") {
    layout.members = 1u << 30;
  }
  SECTION("one slot") {
    layout.slots = 1;
  }
  SECTION("no chunk") {
    layout.chunk_bytes = 0;
  }
  SECTION("a huge chunk") {
    layout.chunk_bytes = ~std::uint64_t{0};
  }
  SECTION("a huge fast path") {
    layout.fast_path_bytes = ~std::uint64_t{0};
  }
  const auto made = shm_segment::create(layout);
  REQUIRE_FALSE(made);
  CHECK(made.error().kind == error_kind::invalid_argument);
}

TEST_CASE("a forked child has no mapping of its parent's segment and cannot change it") {
  auto made = shm_segment::create(some_layout());
  auto& segment = **made;
  segment.counters(0).packed.publish(5);
  void* const page = segment.slot(0, 0) - reinterpret_cast<std::uintptr_t>(segment.slot(0, 0)) % 4096;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    unsigned char resident = 0;
    const bool gone = mincore(page, 4096, &resident) != 0;
    // The child maps its own memory there; the destructor of the segment must not unmap it.
    void* const own =
        mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    made->reset();
    std::memset(own, 1, 4096);
    _exit(gone ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(segment.counters(0).packed.value.load() == 5);
}

TEST_CASE("prefaulting keeps the existing content") {
  auto made = shm_segment::create(some_layout());
  (*made)->slot(1, 2)[4500] = std::byte{9};
  (*made)->prefault(1, 2, 100);
  (*made)->prefault(1, 2, 5000);
  CHECK((*made)->slot(1, 2)[4500] == std::byte{9});
}
