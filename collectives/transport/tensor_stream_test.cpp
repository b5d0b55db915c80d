#include "collectives/transport/tensor_stream.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <tuple>

using namespace farandole;

namespace {

using bytes = std::vector<std::byte>;

bytes counted(std::size_t length, int first) {
  bytes all(length);
  for (auto& data : all)
    data = static_cast<std::byte>(first++);
  return all;
}

} // namespace

TEST_CASE("a range inside one part is addressed directly, and a range across parts is packed and unpacked") {
  bytes first = counted(10, 1), second = counted(5, 21);
  tensor_stream row;
  row.append(first.size(), first.data());
  row.append(4, nullptr);
  row.append(0, second.data());
  row.append(second.size(), second.data());
  CHECK(row.bytes() == 19);
  CHECK(row.memory_of(2, 8) == first.data() + 2);
  CHECK(row.memory_of(2, 9) == nullptr);
  CHECK(row.memory_of(10, 4) == nullptr);
  CHECK(row.memory_of(14, 5) == second.data());
  bytes packed(8);
  pack(row, 8, 8, packed.data(),
       [](std::byte* target, std::size_t length) { std::memset(target, 0xee, length); });
  CHECK(packed == bytes{first[8], first[9], std::byte{0xee}, std::byte{0xee}, std::byte{0xee},
                        std::byte{0xee}, second[0], second[1]});
  bytes news(8, std::byte{1});
  unpack(news.data(), row, 8, 8);
  CHECK(first[8] == std::byte{1});
  CHECK(second[1] == std::byte{1});
  CHECK(second[2] == std::byte{23});
}

TEST_CASE("for_each visits a range piece by piece and skips empty tensors") {
  const bytes memory(10);
  tensor_stream row;
  row.append(0);
  row.append(10, memory.data());
  row.append(0);
  row.append(4);
  using found = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, const std::byte*>;
  std::vector<found> pieces;
  const auto keep = [&](const tensor_stream::piece& piece) {
    pieces.emplace_back(piece.part, piece.offset, piece.at, piece.bytes, piece.memory);
  };
  row.for_each(7, 5, keep);
  CHECK(pieces == std::vector<found>{{1, 7, 0, 3, memory.data() + 7}, {3, 0, 3, 2, nullptr}});
  pieces.clear();
  row.for_each(14, 0, keep);
  row.for_each(3, 0, keep);
  CHECK(pieces.empty());
  CHECK(row.sole_piece(10, 4).part == 3);
  CHECK(row.sole_piece(9, 2).bytes == 0);
  CHECK(row.sole_piece(14, 0).bytes == 0);
  row.clear();
  CHECK(row.bytes() == 0);
}
