#include "collectives/transport/bulk_copy.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <vector>

using namespace farandole;

TEST_CASE("a bulk copy copies exactly the requested bytes for every length and alignment") {
  std::mt19937 random(11);
  std::vector<std::byte> source(70'000);
  for (auto& data : source)
    data = std::byte(random());
  for (const auto way : {copy_way::vectors, copy_way::library})
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                    std::size_t{4159}, std::size_t{65'537}})
      for (const std::size_t from : {std::size_t{0}, std::size_t{1}, std::size_t{8}})
        for (const std::size_t to : {std::size_t{64}, std::size_t{67}}) {
          std::vector<std::byte> target(to + bytes + 100, std::byte{0xcc});
          bulk_copy(way, target.data() + to, source.data() + from, bytes);
          auto wanted = std::vector<std::byte>(target.size(), std::byte{0xcc});
          for (std::size_t i = 0; i < bytes; ++i)
            wanted[to + i] = source[from + i];
          REQUIRE(target == wanted);
        }
}
