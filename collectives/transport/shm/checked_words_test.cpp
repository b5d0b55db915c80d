#include "collectives/transport/shm/checked_words.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <cstring>
#include <vector>

using namespace farandole;

namespace {

struct written {
  std::array<std::uint64_t, 3> words{11, 0, ~std::uint64_t{0}};
  words_origin origin{2, 7, 90};
  std::array<std::uint64_t, 4> memory{};

  written() { write_checked(data(), words, origin); }
  std::byte* data() { return reinterpret_cast<std::byte*>(memory.data()); }
  bool holds(const words_origin& by) {
    std::array<std::uint64_t, 3> read{};
    return read_checked(data(), read, by) && read == words;
  }
};

} // namespace

TEST_CASE("checked words are read back as written") {
  written written;
  static_assert(checked_bytes(3) == sizeof written.memory);
  CHECK(written.holds(written.origin));
}

TEST_CASE("a change of any bit of the words or the checksum is detected") {
  written written;
  for (std::size_t bit = 0; bit < 8 * sizeof written.memory; ++bit) {
    auto& word = written.memory[bit / 64];
    word ^= std::uint64_t{1} << (bit % 64);
    CHECK_FALSE(written.holds(written.origin));
    word ^= std::uint64_t{1} << (bit % 64);
  }
  std::swap(written.memory[0], written.memory[1]);
  CHECK_FALSE(written.holds(written.origin));
}

TEST_CASE("words of another member, cell or round do not match") {
  written written;
  CHECK_FALSE(written.holds({3, 7, 90}));
  CHECK_FALSE(written.holds({2, 8, 90}));
  CHECK_FALSE(written.holds({2, 7, 92}));
  written.memory = {};
  written.words = {};
  CHECK_FALSE(written.holds({0, 0, 0}));
}
