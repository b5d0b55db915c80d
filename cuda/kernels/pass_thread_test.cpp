#include "cuda/kernels/pass_thread.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <vector>

using namespace farandole::kernels;

namespace {

/// In place, an element that is moved twice or never shows.
template <class T>
struct incremented {
  using source = T;
  using target = T;
  static constexpr bool is_copy = false;
  static constexpr unsigned packets_at_once = 2;
  explicit incremented(double) {}
  T operator()(T element) const { return static_cast<T>(element + 1); }
};

/// To a wider type, or to a narrower one.
template <class From, class To>
struct converted {
  using source = From;
  using target = To;
  static constexpr bool is_copy = false;
  static constexpr unsigned packets_at_once = 1;
  explicit converted(double) {}
  To operator()(From element) const { return static_cast<To>(element + 1); }
};

struct pieces {
  std::vector<piece_entry> entries;
  std::uint64_t elements = 0;

  void add(void* input, void* output, std::uint64_t count) {
    elements += count;
    entries.push_back(
        {reinterpret_cast<std::uint64_t>(input), reinterpret_cast<std::uint64_t>(output), elements});
  }
};

template <class Operation>
void run(const pieces& all, std::uint32_t blocks) {
  pass_header header;
  header.count = static_cast<std::uint32_t>(all.entries.size());
  header.share = (all.elements + blocks - 1) / blocks;
  for (std::uint32_t block = 0; block < blocks; ++block)
    for (std::uint32_t thread = 0; thread < threads_of_block; ++thread)
      run_thread<Operation>(header, all.entries.data(), {block, thread});
}

template <class T>
T* aligned(std::vector<T>& memory) {
  memory.resize(memory.size() + 16 / sizeof(T));
  auto address = reinterpret_cast<std::uint64_t>(memory.data());
  return memory.data() + (16 - address % 16) % 16 / sizeof(T);
}

template <class T>
void check_in_place(std::mt19937& random) {
  std::vector<T> memory(20000, T(1));
  pieces all;
  std::vector<T> expected(memory.size(), T(1));
  for (std::size_t position = random() % 20; position < memory.size();) {
    const auto largest = random() % 8 == 0 ? 5000U : 40U;
    const auto count = std::min<std::size_t>(1 + random() % largest, memory.size() - position);
    all.add(&memory[position], &memory[position], count);
    std::fill_n(&expected[position], count, T(2));
    position += count + random() % 20;
  }
  run<incremented<T>>(all, 1 + random() % 50);
  CHECK(memory == expected);
}

template <class From, class To>
void check_offsets() {
  constexpr std::size_t count = 100;
  for (std::size_t input = 0; input < 16; ++input)
    for (std::size_t output = 0; output < 16; ++output) {
      std::vector<From> from(count + 16, From(1));
      std::vector<To> to(count + 16, To(0)), expected(count + 32, To(0));
      auto* source = aligned(from) + input;
      auto* target = aligned(to) + output;
      std::fill_n(source, count, From(1));
      pieces all;
      all.add(source, target, count);
      run<converted<From, To>>(all, 3);
      CHECK(std::count(to.begin(), to.end(), To(2)) == count);
      CHECK(std::all_of(target, target + count, [](To element) { return element == To(2); }));
    }
}

template <class From, class To>
packet_layout<From, To> layout_of(std::uint64_t input, std::uint64_t output) {
  return {input, output};
}

} // namespace

TEST_CASE("blocks and threads move each element once, whatever the sizes and addresses of the pieces") {
  std::mt19937 random(20);
  for (int round = 0; round < 20; ++round) {
    check_in_place<std::uint8_t>(random);
    check_in_place<std::uint16_t>(random);
    check_in_place<std::uint32_t>(random);
    check_in_place<std::uint64_t>(random);
  }
}

TEST_CASE("elements are converted to wider and narrower ones at all offsets from 16 bytes") {
  check_offsets<float, std::uint16_t>();
  check_offsets<std::uint16_t, float>();
  check_offsets<double, std::uint16_t>();
  check_offsets<std::uint16_t, double>();
}

TEST_CASE("packets begin at the first element at which both addresses are multiples of 16") {
  CHECK(layout_of<float, float>(160, 320).first == 0);
  CHECK(layout_of<float, float>(164, 324).first == 3);
  CHECK(layout_of<float, float>(164, 324).exists);
  CHECK_FALSE(layout_of<float, float>(160, 324).exists);
  CHECK(layout_of<float, float>(0, 324).first == 3); // the neutral value has no address
  CHECK(layout_of<float, float>(0, 324).exists);
  using narrowing = packet_layout<float, std::uint16_t>;
  CHECK(narrowing::elements_of_packet == 8);
  CHECK(narrowing(160 + 12, 320 + 2).first == 7); // 12 + 28 and 2 + 14
  CHECK_FALSE(narrowing(160 + 12, 320 + 2).exists);
  CHECK(narrowing(160 + 4, 320 + 2).exists);
  CHECK(packet_layout<std::uint16_t, float>(160 + 2, 320 + 4).exists);
  CHECK(packet_layout<std::uint16_t, float>(160 + 2, 320 + 4).first == 7);
}

TEST_CASE("shares end between packets, and at the ends of a piece") {
  const auto layout = layout_of<float, float>(164, 324); // packets begin at 3, 7, 11, …
  CHECK(layout.place_for(0, 100) == 0);
  CHECK(layout.place_for(1, 100) == 3);
  CHECK(layout.place_for(3, 100) == 3);
  CHECK(layout.place_for(4, 100) == 7);
  CHECK(layout.place_for(98, 100) == 99);
  CHECK(layout.place_for(100, 100) == 100);
  CHECK(layout.place_for(1000, 100) == 100);
  CHECK(layout.place_for(1, 2) == 2);
  CHECK(layout_of<float, float>(160, 324).place_for(5, 100) == 5);
}

TEST_CASE("the piece of a position is the first that ends behind it") {
  pieces all;
  for (const auto count : {5, 1, 10})
    all.add(nullptr, nullptr, count);
  CHECK(piece_at(all.entries.data(), 3, 0) == 0);
  CHECK(piece_at(all.entries.data(), 3, 4) == 0);
  CHECK(piece_at(all.entries.data(), 3, 5) == 1);
  CHECK(piece_at(all.entries.data(), 3, 6) == 2);
  CHECK(piece_at(all.entries.data(), 3, 15) == 2);
  CHECK(piece_at(all.entries.data(), 3, 16) == 3);
}

TEST_CASE("the small argument holds 169 pieces, and the large one 1,363") {
  CHECK(small_arguments::most_pieces == 169);
  CHECK(large_arguments::most_pieces == 1363);
}
