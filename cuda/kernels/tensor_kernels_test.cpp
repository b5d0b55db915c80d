// Passes through the driver's functions and the stand-in driver, which runs the kernels on the host.
#include "cuda/kernels/tensor_kernels.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "cuda/driver/stand_in_testing.hpp"
#include "cuda/kernels/kernel_image_testing.hpp"
#include "cuda/kernels/pass_arguments.hpp"

using namespace farandole;
using namespace farandole::kernels;
using Catch::Contains;

namespace {

using bytes = std::vector<std::byte>;

bytes random_bytes(std::mt19937& random, std::size_t count) {
  bytes result(count);
  std::ranges::generate(result, [&] { return std::byte(random()); });
  return result;
}

/// The kernels of one GPU, with a stream.
struct kernel_gpu {
  stand_in_driver gpu{0};
  std::shared_ptr<devices> all = *devices::open(stand_in_driver::path());
  std::unique_ptr<tensor_kernels> kernels = open();
  CUstream stream = gpu.stream();

  std::unique_ptr<tensor_kernels> open() {
    auto opened = tensor_kernels::open(driver_devices::of(*all), 0, kernels_for_tests());
    REQUIRE(opened);
    return std::move(*opened);
  }
  std::byte* place(const bytes& content) {
    auto* memory = gpu.device_memory(content.size());
    stand_in_driver::write(memory, content);
    return memory;
  }
  error run(const tensor_pass& pass) {
    auto problem = kernels->run(stream, pass);
    stand_in_driver::function<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(stream);
    return problem;
  }
};

unsigned long launches() {
  return stand_in_driver::calls("cuLaunchKernel");
}

/// Tensors at random offsets of device memory, and what is expected behind the pass.
template <class Operation>
class random_pass {
public:
  using source = typename Operation::source;
  using target = typename Operation::target;

  random_pass(kernel_gpu& gpu, std::mt19937& random, std::size_t pieces, bool in_place)
      : gpu_(gpu), random_(random), in_place_(in_place) {
    std::size_t read = 0, written = 0;
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::size_t most = random_() % 64 == 0 ? 20000 : 200;
      const auto elements = random_() % 16 == 0 ? 0 : 1 + random_() % most;
      read += random_() % 10;
      written += random_() % 10;
      places_.push_back({read, in_place ? read : written, elements});
      read += elements;
      written += elements;
    }
    read_ = random_bytes(random_, (read + 10) * sizeof(source));
    written_ = in_place ? read_ : random_bytes(random_, (written + 10) * sizeof(target));
  }

  void check(dtype from, dtype to, double scale) {
    tensor_pass pass{from, to, scale, {}, {}};
    std::ranges::generate(pass.neutral, [&] { return std::byte(random_()); });
    auto* input = gpu_.place(read_);
    auto* output = in_place_ ? input : gpu_.place(written_);
    for (const auto& [read, written, elements] : places_) {
      const bool is_neutral = random_() % 8 == 0;
      pass.pieces.push_back({is_neutral ? nullptr : input + read * sizeof(source),
                             output + written * sizeof(target), elements});
      for (std::size_t i = 0; i < elements; ++i)
        expect(written + i, is_neutral ? nullptr : &read_[(read + i) * sizeof(source)], pass);
    }
    REQUIRE(gpu_.run(pass) == error{});
    CHECK(gpu_.gpu.read(output, written_.size()) == written_);
  }

private:
  struct place {
    std::size_t read, written, elements;
  };

  void expect(std::size_t index, const std::byte* input, const tensor_pass& pass) {
    target result;
    source element;
    if (input == nullptr) {
      std::memcpy(&result, pass.neutral.data(), sizeof result);
    } else {
      std::memcpy(&element, input, sizeof element);
      result = Operation(pass.scale)(element);
    }
    std::memcpy(&written_[index * sizeof(target)], &result, sizeof result);
  }

  kernel_gpu& gpu_;
  std::mt19937& random_;
  bool in_place_;
  std::vector<place> places_;
  bytes read_, written_;
};

template <class Operation>
void check_random(kernel_gpu& gpu, dtype from, dtype to, double scale) {
  std::mt19937 random(static_cast<unsigned>(from) * 16 + static_cast<unsigned>(to));
  for (const bool in_place : {false, true}) {
    if (in_place && size_of(from) != size_of(to))
      continue;
    random_pass<Operation>(gpu, random, 100, in_place).check(from, to, scale);
  }
}

tensor_pass copy_of(std::byte* input, std::byte* output, std::size_t pieces, std::size_t piece_bytes = 1) {
  tensor_pass pass{dtype::uint8, dtype::uint8, 1.0, {}, {}};
  for (std::size_t i = 0; i < pieces; ++i)
    pass.pieces.push_back({input + i * piece_bytes, output + i * piece_bytes, piece_bytes});
  return pass;
}

error_kind kind_of(const error& problem) {
  return problem.kind;
}

} // namespace

TEST_CASE("each type is scaled, wherever the tensors are, and nothing beside them is written") {
  kernel_gpu gpu;
  check_random<scaled_integer<std::uint8_t>>(gpu, dtype::uint8, dtype::uint8, 1.7);
  check_random<scaled_integer<std::int8_t>>(gpu, dtype::int8, dtype::int8, -1.7);
  check_random<scaled_integer<std::uint16_t>>(gpu, dtype::uint16, dtype::uint16, 0.3);
  check_random<scaled_integer<std::int16_t>>(gpu, dtype::int16, dtype::int16, 3.0);
  check_random<scaled_integer<std::int32_t>>(gpu, dtype::int32, dtype::int32, 0.25);
  check_random<scaled_integer<std::int64_t>>(gpu, dtype::int64, dtype::int64, 0.25);
}

TEST_CASE("each float is scaled and converted to each other one") {
  kernel_gpu gpu;
#define CONVERSIONS(from)                                                                                    \
  check_random<scaled_float<from##_format, float16_format>>(gpu, dtype::from, dtype::float16, 0.37);         \
  check_random<scaled_float<from##_format, bfloat16_format>>(gpu, dtype::from, dtype::bfloat16, 0.37);       \
  check_random<scaled_float<from##_format, float32_format>>(gpu, dtype::from, dtype::float32, 0.37);         \
  check_random<scaled_float<from##_format, float64_format>>(gpu, dtype::from, dtype::float64, 0.37);
  CONVERSIONS(float16)
  CONVERSIONS(bfloat16)
  CONVERSIONS(float32)
  CONVERSIONS(float64)
#undef CONVERSIONS
  check_random<scaled_float<float32_format, float16_format>>(gpu, dtype::float32, dtype::float16, 1.0);
}

TEST_CASE("with a scale of 1, the bytes of every type are copied as they are") {
  kernel_gpu gpu;
  for (const auto type : {dtype::uint8, dtype::int8, dtype::boolean})
    check_random<copied<std::uint8_t>>(gpu, type, type, 1.0);
  for (const auto type : {dtype::uint16, dtype::int16, dtype::float16, dtype::bfloat16})
    check_random<copied<std::uint16_t>>(gpu, type, type, 1.0);
  for (const auto type : {dtype::int32, dtype::float32})
    check_random<copied<std::uint32_t>>(gpu, type, type, 1.0);
  for (const auto type : {dtype::int64, dtype::float64})
    check_random<copied<std::uint64_t>>(gpu, type, type, 1.0);
}

TEST_CASE("the payload of a NaN is copied, and lost when it is scaled") {
  kernel_gpu gpu;
  const std::vector<std::uint32_t> nans{0x7f800001, 0xffc12345};
  bytes content(8);
  std::memcpy(content.data(), nans.data(), content.size());
  auto* memory = gpu.place(content);
  tensor_pass pass{dtype::float32, dtype::float32, 1.0, {}, {{memory, memory, 2}}};
  REQUIRE(gpu.run(pass) == error{});
  CHECK(stand_in_driver::read(memory, 8) == content);
  pass.scale = 2.0;
  REQUIRE(gpu.run(pass) == error{});
  const std::vector<std::uint32_t> quiet{0x7fc00000, 0x7fc00000};
  std::memcpy(content.data(), quiet.data(), content.size());
  CHECK(stand_in_driver::read(memory, 8) == content);
}

TEST_CASE("a pass has as few launches as the driver's limit allows") {
  std::mt19937 random(1);
  const auto count = [&](std::size_t pieces) {
    kernel_gpu gpu;
    const auto content = random_bytes(random, pieces * 3);
    auto* output = gpu.gpu.device_memory(content.size());
    const auto before = launches();
    REQUIRE(gpu.run(copy_of(gpu.place(content), output, pieces, 3)) == error{});
    CHECK(stand_in_driver::read(output, content.size()) == content);
    return launches() - before;
  };
  CHECK(count(1) == 1);
  CHECK(count(1300) == 1);
  CHECK(count(1363) == 1);
  CHECK(count(1364) == 2);
  CHECK(count(5000) == 4);
  const variable version("FARANDOLE_FAKE_CUDA", "12000");
  CHECK(count(169) == 1);
  CHECK(count(170) == 2);
  CHECK(count(5000) == 30);
}

TEST_CASE("a large tensor beside small ones") {
  kernel_gpu gpu;
  std::mt19937 random(2);
  constexpr std::size_t small = 1024, count = 1000, large = std::size_t{3} << 20;
  const auto content = random_bytes(random, small * count + large);
  auto* input = gpu.place(content);
  auto* output = gpu.gpu.device_memory(content.size());
  auto pass = copy_of(input, output, count, small);
  pass.pieces.push_back({input + small * count, output + small * count, large});
  const auto before = launches();
  REQUIRE(gpu.run(pass) == error{});
  CHECK(launches() == before + 1);
  CHECK(stand_in_driver::read(output, content.size()) == content);
}

TEST_CASE("a pass without elements launches nothing") {
  kernel_gpu gpu;
  const auto before = launches();
  CHECK(gpu.run({}) == error{});
  CHECK(gpu.run({dtype::float32, dtype::float32, 2.0, {}, {{nullptr, nullptr, 0}}}) == error{});
  CHECK(launches() == before);
}

TEST_CASE("a pass may be changed as soon as it was launched, and runs in the order of its stream") {
  const variable manual("FARANDOLE_FAKE_CUDA_STREAMS", "manual");
  kernel_gpu gpu;
  auto* memory = gpu.gpu.device_memory(64);
  auto* output = gpu.gpu.device_memory(64);
  stand_in_driver::fill(memory, 1, 64, gpu.stream);
  auto pass = copy_of(memory, output, 64);
  REQUIRE(gpu.kernels->run(gpu.stream, pass) == error{});
  pass.pieces.assign(pass.pieces.size(), {});
  stand_in_driver::fill(memory, 2, 64, gpu.stream);
  CHECK(stand_in_driver::run(gpu.stream, 9) == 3);
  CHECK(stand_in_driver::read(output, 64) == bytes(64, std::byte(1)));
  CHECK(stand_in_driver::read(memory, 64) == bytes(64, std::byte(2)));
}

TEST_CASE("a pass that no kernel can run is refused before any launch") {
  kernel_gpu gpu;
  auto* memory = gpu.gpu.device_memory(64);
  const auto before = launches();
  const auto refusal = [&](const tensor_pass& pass) {
    auto problem = gpu.run(pass);
    CHECK(kind_of(problem) == error_kind::unimplemented);
    return problem.text;
  };
  CHECK(refusal({dtype::int32, dtype::float32, 1.0, {}, {}}) == "GPU 0: no kernel scales int32 to float32");
  CHECK(refusal({dtype::boolean, dtype::boolean, 2.0, {}, {}}) == "GPU 0: no kernel scales bool to bool");
  CHECK(refusal({dtype::float32, dtype::float16, 1.0, {}, {{memory, memory, 2}}}) ==
        "GPU 0: no kernel converts float32 to float16 in place");
  CHECK_THAT(refusal({dtype::float32, dtype::float32, 1.0, {}, {{memory + 2, memory, 2}}}),
             Contains("not aligned to their elements"));
  CHECK_THAT(refusal({dtype::float32, dtype::float32, 1.0, {}, {{nullptr, memory + 1, 2}}}),
             Contains("not aligned to their elements"));
  CHECK(launches() == before);
  // Types of the same size are converted in place.
  CHECK(gpu.run({dtype::float16, dtype::bfloat16, 1.0, {}, {{memory, memory, 2}}}) == error{});
}

TEST_CASE("a launch that fails ends the pass") {
  kernel_gpu gpu;
  auto* memory = gpu.gpu.device_memory(5000);
  auto* output = gpu.gpu.device_memory(5000);
  const auto before = launches();
  const variable fails("FARANDOLE_FAKE_CUDA_FAILS", "cuLaunchKernel:2");
  const auto problem = gpu.run(copy_of(memory, output, 5000));
  CHECK(problem.text == "GPU 0: cuLaunchKernel failed: CUDA_ERROR_UNKNOWN (unknown error)");
  CHECK(kind_of(problem) == error_kind::unknown);
  CHECK(launches() == before + 2);
}

TEST_CASE("memory of the host is refused by the stand-in, as a GPU would stop at it") {
  kernel_gpu gpu;
  auto* memory = gpu.gpu.device_memory(64);
  bytes host(64);
  CHECK_THAT(gpu.run(copy_of(host.data(), memory, 1, 64)).text, Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK_THAT(gpu.run(copy_of(memory, memory + 32, 1, 64)).text, Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_CASE("kernels are loaded, run and unloaded while another thread captures a stream") {
  kernel_gpu gpu;
  auto* captured = gpu.gpu.stream();
  auto* memory = gpu.place(bytes(64, std::byte(7)));
  auto* output = gpu.gpu.device_memory(64);
  const auto loads = stand_in_driver::calls("cuModuleUnload");
  REQUIRE(stand_in_driver::function<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(
              captured, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  {
    auto second = gpu.open();
    CHECK(second->run(gpu.stream, copy_of(memory, output, 64)) == error{});
  }
  CHECK(stand_in_driver::calls("cuModuleUnload") == loads + 1);
  CUgraph graph = nullptr;
  CHECK(stand_in_driver::function<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(captured, &graph) ==
        CUDA_SUCCESS);
  CHECK(gpu.run(copy_of(memory, output, 64)) == error{});
  CHECK(stand_in_driver::read(output, 64) == bytes(64, std::byte(7)));
}

TEST_CASE("kernels are unimplemented without an image, and with one that the driver does not take") {
  kernel_gpu gpu;
  auto& owner = driver_devices::of(*gpu.all);
  const auto refusal = [&](const kernel_image& image) {
    const auto opened = tensor_kernels::open(owner, 0, image);
    REQUIRE_FALSE(opened);
    CHECK(kind_of(opened.error()) == error_kind::unimplemented);
    return opened.error().text;
  };
  CHECK(refusal({{}, "this build has no kernels"}) == "GPU 0: this build has no kernels");
  const bytes foreign(64);
  CHECK(refusal({foreign, "another build"}) == "GPU 0: cuModuleLoadData failed: CUDA_ERROR_INVALID_IMAGE "
                                               "(device kernel image is invalid); the kernels are of "
                                               "another build");
  CUmodule module = nullptr;
  CHECK(stand_in_driver::function<decltype(cuModuleLoadData)>("cuModuleLoadData")(&module, nullptr) ==
        CUDA_ERROR_INVALID_IMAGE);
}

TEST_CASE("a build tells what its kernels are for, or why it has none") {
  const auto image = built_kernels();
  CHECK_THAT(image.origin,
             Contains(image.bytes.empty() ? "it found no nvcc" : "for the compute capabilities"));
}

TEST_CASE("an error of the driver while kernels are loaded is reported, and the module is unloaded") {
  kernel_gpu gpu;
  auto& owner = driver_devices::of(*gpu.all);
  const auto failure = [&](const char* function) {
    const variable fails("FARANDOLE_FAKE_CUDA_FAILS", function);
    const auto opened = tensor_kernels::open(owner, 0, kernels_for_tests());
    REQUIRE_FALSE(opened);
    return opened.error().text;
  };
  CHECK_THAT(failure("cuDeviceGetAttribute"), Contains("GPU 0: cuDeviceGetAttribute failed"));
  CHECK_THAT(failure("cuModuleLoadData"), Contains("GPU 0: cuModuleLoadData failed"));
  const auto unloads = stand_in_driver::calls("cuModuleUnload");
  CHECK_THAT(failure("cuModuleGetFunction:3"),
             Contains("GPU 0: cuModuleGetFunction of farandole_copy_2_small failed"));
  CHECK(stand_in_driver::calls("cuModuleUnload") == unloads + 1);
  const auto opened = tensor_kernels::open(owner, 7, kernels_for_tests());
  REQUIRE_FALSE(opened);
  CHECK_THAT(opened.error().text, Contains("there is no GPU 7"));
}

TEST_CASE("the number of a kernel is that of its name") {
  const auto name_of = [](dtype from, dtype to, double scale) {
    return std::string(kernel_names[*kernel_for(from, to, scale)]);
  };
  for (const auto from : {dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64})
    for (const auto to : {dtype::float16, dtype::bfloat16, dtype::float32, dtype::float64})
      CHECK(name_of(from, to, 2.0) == std::string(to_string(from)) + "_to_" + std::string(to_string(to)));
  for (const auto type : {dtype::uint8, dtype::int8, dtype::uint16, dtype::int16, dtype::int32, dtype::int64})
    CHECK(name_of(type, type, 2.0) == to_string(type));
  for (std::size_t type = 0; type < dtype_count; ++type)
    CHECK(name_of(static_cast<dtype>(type), static_cast<dtype>(type), 1.0) ==
          "copy_" + std::to_string(size_of(static_cast<dtype>(type))));
}
