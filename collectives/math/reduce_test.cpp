#include <catch2/catch.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "collectives/math/kernels.hpp"
#include "collectives/math/reduce.hpp"

namespace {

using namespace farandole;

constexpr dtype all_types[] = {dtype::uint8, dtype::int8,    dtype::uint16,   dtype::int16,   dtype::int32,
                               dtype::int64, dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64};
constexpr reduce_op all_ops[] = {reduce_op::average, reduce_op::sum, reduce_op::min, reduce_op::max,
                                 reduce_op::product};

using bytes = std::vector<std::byte>;

template <class T>
bytes bytes_of(const std::vector<T>& values) {
  bytes result(values.size() * sizeof(T));
  std::memcpy(result.data(), values.data(), result.size());
  return result;
}

template <class T>
std::vector<T> values_of(const bytes& content) {
  std::vector<T> result(content.size() / sizeof(T));
  std::memcpy(result.data(), content.data(), content.size());
  return result;
}

// Reduces vectors of any element type; float16 and bfloat16 are given as bits.
template <class T>
std::vector<T> reduced(dtype type, reduce_op op, const std::vector<std::vector<T>>& inputs,
                       double prescale = 1.0, double postscale = 1.0, std::size_t divisor = 1) {
  std::vector<bytes> buffers;
  std::vector<const std::byte*> pointers;
  for (const auto& input : inputs)
    buffers.push_back(bytes_of(input));
  for (const auto& buffer : buffers)
    pointers.push_back(buffer.data());
  bytes output(buffers[0].size());
  reduce(type, op, output.data(), pointers, inputs[0].size(), prescale, postscale, divisor);
  return values_of<T>(output);
}

bool is_float(dtype type) {
  return type == dtype::float16 || type == dtype::bfloat16 || type == dtype::float32 ||
         type == dtype::float64;
}

// Random bits, among which NaNs of many payloads, infinities and subnormals are frequent.
bytes wild_bytes(dtype type, std::size_t count, std::mt19937_64& random) {
  bytes result(count * size_of(type));
  for (auto& data : result)
    data = static_cast<std::byte>(random());
  if (!is_float(type))
    return result;
  auto width = size_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    auto* high = &result[(i + 1) * width - 2];
    switch (random() % 6) {
    case 0: // exponent all ones: NaN or infinity
      high[1] |= std::byte{0x7f};
      high[0] |= type == dtype::float64 ? std::byte{0xf0} : std::byte{0x80};
      if (random() % 2)
        std::memset(&result[i * width], 0, width - 2), high[0] &= std::byte{0xf0};
      break;
    case 1: // subnormal or zero
      high[1] &= std::byte{0x80};
      high[0] &= std::byte{0x03};
      break;
    case 2: // near 1
      high[1] = std::byte{0x3c};
      break;
    default:
      break;
    }
  }
  return result;
}

} // namespace

TEST_CASE("every instruction set gives the same bits, in place and out of place, at any alignment") {
  auto tables = math::usable_kernels();
  REQUIRE_FALSE(tables.empty());
  REQUIRE(std::string_view{tables.back()->name} == "scalar");
  std::mt19937_64 random{7};
  constexpr std::pair<double, double> factors[] = {{1.0, 1.0}, {0.3, 1.0}, {1.0, -2.5}, {1.7, 1e3}};
  for (auto type : all_types)
    for (auto op : all_ops)
      for (std::size_t members : {1, 2, 3, 4, 5, 8, 11})
        for (std::size_t count : {1, 2, 7, 8, 17, 33, 100, 1023, 1024, 1025, 2500}) {
          auto [prescale, postscale] = factors[random() % 4];
          auto width = size_of(type);
          std::vector<bytes> inputs;
          for (std::size_t i = 0; i < members; ++i) {
            inputs.push_back(bytes(random() % 9)); // takes the input that follows off its alignment
            auto content = wild_bytes(type, count, random);
            inputs.back().insert(inputs.back().end(), content.begin(), content.end());
          }
          auto run = [&](const math::kernel_table& table, std::size_t in_place) {
            auto copies = inputs;
            bytes output(count * width + 16, std::byte{0x5a});
            std::vector<const std::byte*> pointers;
            for (auto& copy : copies)
              pointers.push_back(copy.data() + copy.size() - count * width);
            auto* target =
                in_place < members ? const_cast<std::byte*>(pointers[in_place]) : output.data() + 3;
            math::reduce_with(table, type, op, target, pointers, count, prescale, postscale, members);
            for (std::size_t i = 0; i < members; ++i)
              if (i != in_place)
                REQUIRE(copies[i] == inputs[i]);
            if (in_place >= members)
              for (std::size_t i = 0; i < output.size(); ++i)
                if (i < 3 || i >= 3 + count * width)
                  REQUIRE(output[i] == std::byte{0x5a});
            return bytes(target, target + count * width);
          };
          auto expected = run(*tables.back(), members);
          INFO(to_string(type) << ' ' << to_string(op) << ", " << members << " members, " << count
                               << " elements");
          for (const auto* table : tables)
            for (std::size_t in_place : {std::size_t{0}, members - 1, members})
              REQUIRE(run(*table, in_place) == expected);
        }
}

TEST_CASE("the result bits do not depend on where a tensor is cut") {
  std::mt19937_64 random{8};
  for (auto type : all_types) {
    constexpr std::size_t count = 3001;
    std::vector<bytes> inputs;
    for (int i = 0; i < 6; ++i)
      inputs.push_back(wild_bytes(type, count, random));
    auto run = [&](std::size_t step) {
      bytes output(count * size_of(type));
      for (std::size_t start = 0; start < count; start += step) {
        std::vector<const std::byte*> pointers;
        for (auto& input : inputs)
          pointers.push_back(input.data() + start * size_of(type));
        reduce(type, reduce_op::average, output.data() + start * size_of(type), pointers,
               std::min(step, count - start), 1.0, 1.0, 6);
      }
      return output;
    };
    auto whole = run(count);
    CHECK(run(1) == whole);
    CHECK(run(13) == whole);
    CHECK(run(1500) == whole);
  }
}

TEST_CASE("floats are summed in rank order") {
  // (1e8 + 1) − 1e8 is 0 in float; any other order gives 1.
  CHECK(reduced<float>(dtype::float32, reduce_op::sum, {{1e8F}, {1.0F}, {-1e8F}}) ==
        std::vector<float>{0.0F});
  CHECK(reduced<float>(dtype::float32, reduce_op::sum, {{1e8F}, {-1e8F}, {1.0F}}) ==
        std::vector<float>{1.0F});
  std::vector<std::vector<float>> many(7, {1.0F});
  many[0][0] = 1e8F;
  many[6][0] = -1e8F;
  CHECK(reduced<float>(dtype::float32, reduce_op::sum, many) == std::vector<float>{0.0F});
  CHECK(reduced<double>(dtype::float64, reduce_op::sum, {{1e16}, {1.0}, {-1e16}}) ==
        std::vector<double>{0.0});
}

TEST_CASE("a scaled sum of floats rounds after every step, without fused multiply-add") {
  std::mt19937_64 random{9};
  std::vector<std::vector<float>> inputs(5, std::vector<float>(200));
  for (auto& input : inputs)
    for (auto& value : input)
      value = std::uniform_real_distribution<float>{-1.0F, 1.0F}(random);
  auto result = reduced<float>(dtype::float32, reduce_op::average, inputs, 0.7, 3.1, 5);
  for (std::size_t i = 0; i < result.size(); ++i) {
    volatile float sum = inputs[0][i] * 0.7F;
    for (std::size_t k = 1; k < inputs.size(); ++k) {
      volatile float term = inputs[k][i] * 0.7F;
      sum = sum + term;
    }
    volatile float expected = sum * static_cast<float>(3.1 / 5);
    REQUIRE(result[i] == expected);
  }
}

TEST_CASE("float16 and bfloat16 are accumulated in float and rounded once") {
  // 2048 + 1 is a tie in float16, and so is 256 + 1 in bfloat16: rounding at each step would lose both ones.
  auto half = reduced<std::uint16_t>(dtype::float16, reduce_op::sum, {{0x6800}, {0x3c00}, {0x3c00}});
  CHECK(half[0] == 0x6801); // 2050
  auto brain = reduced<std::uint16_t>(dtype::bfloat16, reduce_op::sum, {{0x4380}, {0x3f80}, {0x3f80}});
  CHECK(brain[0] == 0x4381); // 258
}

TEST_CASE("float16 and bfloat16 round to nearest even, into subnormals and infinity") {
  auto half = [](std::uint16_t a, std::uint16_t b, double factor = 1.0) {
    return reduced<std::uint16_t>(dtype::float16, reduce_op::sum, {{a}, {b}}, 1.0, factor)[0];
  };
  CHECK(half(0x6800, 0x3c00) == 0x6800);       // 2049 lies between 2048 and 2050: rounds to the even one
  CHECK(half(0x6801, 0x3c00) == 0x6802);       // 2051 rounds to 2052
  CHECK(half(0x7bff, 0x4b80) == 0x7bff);       // 65504 + 15
  CHECK(half(0x7bff, 0x4c00) == 0x7c00);       // 65504 + 16 is infinite
  CHECK(half(0x0001, 0x0000, 0.5) == 0x0000);  // half of the smallest subnormal rounds to even, which is zero
  CHECK(half(0x0003, 0x0000, 0.5) == 0x0002);  // 1.5 times the smallest subnormal
  CHECK(half(0x8001, 0x8000, 0.75) == 0x8001); // the sign is kept
  CHECK(half(0x0400, 0x8001) == 0x03ff);       // from normal to subnormal
  auto brain = [](std::uint16_t a, std::uint16_t b) {
    return reduced<std::uint16_t>(dtype::bfloat16, reduce_op::sum, {{a}, {b}})[0];
  };
  CHECK(brain(0x4380, 0x3f80) == 0x4380);
  CHECK(brain(0x4381, 0x3f80) == 0x4382);
  CHECK(brain(0x7f7f, 0x7f7f) == 0x7f80);
  CHECK(brain(0x0001, 0x0001) == 0x0002);
}

TEST_CASE("every float16 and bfloat16 value survives widening and rounding") {
  for (const auto* table : math::usable_kernels()) {
    std::vector<std::uint16_t> all(65536);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::uint16_t>(i);
    auto content = bytes_of(all);
    bytes output(content.size());
    const std::byte* pointers[] = {content.data(), content.data()};
    for (auto type : {dtype::float16, dtype::bfloat16}) {
      math::reduce_with(*table, type, reduce_op::max, output.data(), pointers, all.size(), 1.0, 1.0, 1);
      auto result = values_of<std::uint16_t>(output);
      std::uint16_t infinity = type == dtype::float16 ? 0x7c00 : 0x7f80;
      std::uint16_t nan = type == dtype::float16 ? 0x7e00 : 0x7fc0;
      for (std::size_t i = 0; i < all.size(); ++i)
        REQUIRE(result[i] == ((i & 0x7fff) > infinity ? nan : i));
    }
  }
}

TEST_CASE("float16 values are read as their bits define") {
  // Scaling by a power of two into float32's range is exact, so a product with 1 is compared with the value
  // by definition.
  for (std::uint32_t bits = 0; bits < 0x7c00; bits += 7) {
    int exponent = static_cast<int>(bits >> 10);
    double mantissa = bits & 0x3ff;
    double value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    // value · (1/value) is within one rounding of 1.
    if (value == 0)
      continue;
    auto unsigneds = reduced<std::uint16_t>(dtype::float16, reduce_op::sum,
                                            {{static_cast<std::uint16_t>(bits)}, {0}}, 1.0, 1.0 / value);
    REQUIRE(unsigneds[0] == 0x3c00);
  }
}

TEST_CASE("integer reductions wrap on overflow") {
  CHECK(reduced<std::uint8_t>(dtype::uint8, reduce_op::sum, {{200}, {100}})[0] == 44);
  CHECK(reduced<std::int8_t>(dtype::int8, reduce_op::sum, {{127}, {1}})[0] == -128);
  CHECK(reduced<std::uint16_t>(dtype::uint16, reduce_op::product, {{65535}, {65535}})[0] == 1);
  CHECK(reduced<std::int16_t>(dtype::int16, reduce_op::product, {{-32768}, {-1}})[0] == -32768);
  CHECK(reduced<std::int32_t>(dtype::int32, reduce_op::sum, {{INT32_MAX}, {1}})[0] == INT32_MIN);
  CHECK(reduced<std::int64_t>(dtype::int64, reduce_op::product, {{INT64_MAX}, {2}})[0] == -2);
}

TEST_CASE("integers are truncated toward zero after prescale and again after postscale") {
  auto int32 = [](std::vector<std::vector<std::int32_t>> inputs, double pre, double post,
                  reduce_op op = reduce_op::sum, std::size_t divisor = 1) {
    return reduced<std::int32_t>(dtype::int32, op, inputs, pre, post, divisor)[0];
  };
  CHECK(int32({{3}, {3}}, 0.5, 1.0) == 2); // 1 + 1, not 3
  CHECK(int32({{-3}, {-3}}, 0.5, 1.0) == -2);
  CHECK(int32({{3}, {4}}, 1.0, 0.5) == 3);
  CHECK(int32({{-3}, {-4}}, 1.0, 0.5) == -3);
  CHECK(int32({{7}, {8}, {9}}, 1.0, 1.0, reduce_op::average, 3) == 8);
  CHECK(int32({{-1}, {-4}}, 1.0, 1.0, reduce_op::average, 2) == -2);
  CHECK(int32({{1}, {2}}, 1.0, 3.0, reduce_op::average, 2) == 4);
  CHECK(int32({{5}}, 1.0, 0.5) == 2);
  CHECK(reduced<std::int8_t>(dtype::int8, reduce_op::sum, {{100}, {0}}, 1.0, 3.0)[0] == 44); // 300 wraps
}

TEST_CASE("averages of integers are exact wherever their sum fits into 64 bits") {
  const auto mean = [](dtype type, auto first, auto... others) {
    using element = decltype(first);
    return reduced<element>(type, reduce_op::average, {{first}, {others}...}, 1.0, 1.0,
                            1 + sizeof...(others))[0];
  };
  using u8 = std::uint8_t;
  CHECK(mean(dtype::uint8, u8{250}, u8{20}) == 135);
  CHECK(mean(dtype::int8, std::int8_t{-128}, std::int8_t{-128}, std::int8_t{-127}) == -127);
  CHECK(mean(dtype::uint16, std::uint16_t{65535}, std::uint16_t{65535}) == 65535);
  CHECK(mean(dtype::int16, std::int16_t{-32768}, std::int16_t{-32767}) == -32767);
  CHECK(mean(dtype::int32, INT32_MAX, INT32_MAX, INT32_MAX - 2) == INT32_MAX - 1);
  constexpr std::int64_t odd = (std::int64_t{1} << 61) + 1; // not representable as a double
  CHECK(mean(dtype::int64, odd, odd, odd) == odd);
  CHECK(mean(dtype::int64, std::int64_t{5}, std::int64_t{6}, std::int64_t{-1}) == 3);
  // The scales act on the sum of 64 bits as well.
  CHECK(reduced<u8>(dtype::uint8, reduce_op::average, {{200}, {100}}, 2.0, 0.5, 2)[0] == 150);
}

TEST_CASE("the mean of equal values over any number of ranks is this value, if their sum is exact") {
  for (std::size_t members = 1; members <= 256; ++members) {
    INFO(members << " members");
    const auto mean = [&](dtype type, auto value) {
      const std::vector<std::vector<decltype(value)>> inputs(members, std::vector(9, value));
      return reduced(type, reduce_op::average, inputs, 1.0, 1.0, members) == inputs[0];
    };
    REQUIRE(mean(dtype::uint8, std::uint8_t{255}));
    REQUIRE(mean(dtype::int8, std::int8_t{-128}));
    REQUIRE(mean(dtype::uint16, std::uint16_t{65535}));
    REQUIRE(mean(dtype::int16, std::int16_t{-32768}));
    REQUIRE(mean(dtype::int32, INT32_MIN));
    REQUIRE(mean(dtype::int64, std::int64_t{1}));
    REQUIRE(mean(dtype::float16, std::uint16_t{0x3c01}));
    REQUIRE(mean(dtype::bfloat16, std::uint16_t{0x3f81}));
    REQUIRE(mean(dtype::float32, 1.0F));
    REQUIRE(mean(dtype::float64, 1.0));
  }
}

TEST_CASE("a scale factor of exactly 1 is not applied, so large integers keep every digit") {
  constexpr std::int64_t odd = (std::int64_t{1} << 62) + 1; // not representable as a double
  CHECK(reduced<std::int64_t>(dtype::int64, reduce_op::sum, {{odd}, {0}})[0] == odd);
  CHECK(reduced<std::int64_t>(dtype::int64, reduce_op::max, {{odd}, {0}}, 1.0, 1.0)[0] == odd);
  CHECK(reduced<std::int64_t>(dtype::int64, reduce_op::sum, {{odd}, {0}}, 1.0, 0.5)[0] ==
        (std::int64_t{1} << 61));
}

TEST_CASE("scaled integers beyond 64 bits saturate, and a NaN factor gives 0") {
  CHECK(reduced<std::int64_t>(dtype::int64, reduce_op::sum, {{INT64_MAX}, {0}}, 1.0, 4.0)[0] == INT64_MAX);
  CHECK(reduced<std::int64_t>(dtype::int64, reduce_op::sum, {{INT64_MAX}, {0}}, 1.0, -4.0)[0] == INT64_MIN);
  CHECK(reduced<std::int64_t>(dtype::int64, reduce_op::sum, {{5}, {0}}, 1.0, std::nan(""))[0] == 0);
}

TEST_CASE("minimum and maximum are NaN if any rank's value is NaN, and keep the first of equal values") {
  auto nan = std::numeric_limits<float>::quiet_NaN();
  for (auto op : {reduce_op::min, reduce_op::max}) {
    CHECK(std::isnan(reduced<float>(dtype::float32, op, {{nan}, {1.0F}, {2.0F}})[0]));
    CHECK(std::isnan(reduced<float>(dtype::float32, op, {{1.0F}, {nan}, {2.0F}})[0]));
    CHECK(std::isnan(reduced<float>(dtype::float32, op, {{1.0F}, {2.0F}, {nan}})[0]));
    CHECK(std::signbit(reduced<float>(dtype::float32, op, {{-0.0F}, {0.0F}})[0]));
    CHECK_FALSE(std::signbit(reduced<float>(dtype::float32, op, {{0.0F}, {-0.0F}})[0]));
  }
  CHECK(reduced<std::int8_t>(dtype::int8, reduce_op::min, {{1}, {-1}})[0] == -1);
  CHECK(reduced<std::uint8_t>(dtype::uint8, reduce_op::min, {{1}, {255}})[0] == 1);
}

TEST_CASE("every NaN result has the same bits") {
  auto payload = std::bit_cast<float>(0xffc12345U);
  auto other = std::bit_cast<float>(0x7f812345U);
  for (auto op : {reduce_op::sum, reduce_op::product, reduce_op::min}) {
    auto result =
        reduced<float>(dtype::float32, op, {std::vector<float>(40, payload), std::vector<float>(40, other)});
    for (auto value : result)
      CHECK(std::bit_cast<std::uint32_t>(value) == 0x7fc00000U);
  }
  auto infinity = std::numeric_limits<double>::infinity();
  auto difference = reduced<double>(dtype::float64, reduce_op::sum, {{infinity}, {-infinity}});
  CHECK(std::bit_cast<std::uint64_t>(difference[0]) == 0x7ff8000000000000U);
}

TEST_CASE("a single member without scale factors gets its own bits back") {
  std::mt19937_64 random{10};
  for (auto type : all_types) {
    auto input = wild_bytes(type, 77, random);
    auto output = input;
    const std::byte* pointer = input.data();
    reduce(type, reduce_op::average, output.data(), {&pointer, 1}, 77, 1.0, 1.0, 1);
    CHECK(output == input);
    const std::byte* self = output.data();
    reduce(type, reduce_op::sum, output.data(), {&self, 1}, 77, 1.0, 1.0, 1);
    CHECK(output == input);
  }
}

TEST_CASE("reducing with a neutral element changes nothing") {
  std::mt19937_64 random{11};
  for (auto type : all_types)
    for (auto op : all_ops) {
      constexpr std::size_t count = 50;
      auto width = size_of(type);
      bytes input = wild_bytes(type, count, random);
      bytes neutral(count * width + 1, std::byte{0x77});
      fill_neutral(type, op, neutral.data(), count);
      CHECK(neutral.back() == std::byte{0x77});
      // The expected value is a reduction of the input with itself, so that NaNs are canonical on both sides.
      // Adding the neutral zero turns −0 into 0, which counts as equal.
      const std::byte* with[] = {neutral.data(), input.data(), neutral.data()};
      const std::byte* twice[] = {input.data(), input.data()};
      bytes result(count * width);
      bytes expected(count * width);
      reduce(type, op == reduce_op::average ? reduce_op::sum : op, result.data(), with, count, 1.0, 1.0, 1);
      reduce(type, reduce_op::max, expected.data(), twice, count, 1.0, 1.0, 1);
      bool adds = op == reduce_op::sum || op == reduce_op::average;
      for (std::size_t i = 0; i < count; ++i) {
        if (adds && is_float(type) && expected[(i + 1) * width - 1] == std::byte{0x80})
          continue; // −0, or a tiny negative number
        INFO(to_string(type) << ' ' << to_string(op) << " element " << i);
        REQUIRE(std::memcmp(&result[i * width], &expected[i * width], width) == 0);
      }
    }
}

TEST_CASE("the kernel in use is the best that the machine supports") {
  CHECK(reduction_kernel() == math::usable_kernels().front()->name);
}
