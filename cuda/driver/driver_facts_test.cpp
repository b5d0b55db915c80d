#include "cuda/driver/driver_facts.hpp"

#include <catch2/catch.hpp>

#include "cuda/driver/stand_in_testing.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

const std::string stand_in = stand_in_driver::path();

std::string problem() {
  const auto facts = find_driver(stand_in);
  REQUIRE_FALSE(facts);
  return facts.error().text;
}

} // namespace

TEST_CASE("the driver's path and version and the facts of each GPU are found") {
  const auto facts = find_driver(stand_in);
  REQUIRE(facts);
  CHECK(facts->path == stand_in);
  CHECK(cuda_version_text(facts->cuda_version) == "13.0");
  REQUIRE(facts->gpus.size() == 2);
  CHECK(facts->gpus[0].name == "Stand-in GPU 0");
  CHECK(facts->gpus[1].name == "Stand-in GPU 1");
  CHECK(facts->gpus[0].uuid == "10101010-1010-1010-1010-101010101010");
  CHECK(facts->gpus[1].uuid == "11111111-1111-1111-1111-111111111111");
  CHECK(facts->gpus[0].memory_bytes == std::uint64_t{8} << 30);
  CHECK(facts->gpus[0].compute_major == 9);
  CHECK(facts->gpus[0].compute_minor == 0);
}

TEST_CASE("a machine without a driver is told which library is missing") {
  const auto facts = find_driver("libcuda-of-no-machine.so.1");
  REQUIRE_FALSE(facts);
  CHECK_THAT(facts.error().text, Contains("there is no NVIDIA driver (libcuda-of-no-machine.so.1"));
}

TEST_CASE("a library that is no driver is refused by its path") {
  const auto facts = find_driver("libm.so.6");
  REQUIRE_FALSE(facts);
  CHECK(facts.error().text == "libm.so.6 is not an NVIDIA driver: it has no function cuInit");
}

TEST_CASE("a driver that is too old is refused with the version to install") {
  const variable old("FARANDOLE_FAKE_CUDA", "11080");
  CHECK_THAT(problem(), Contains(stand_in + " is too old") && Contains("version 525 or later"));
}

TEST_CASE("a driver without a function is refused with the function's name") {
  const variable lacks("FARANDOLE_FAKE_CUDA_LACKS", "cuDeviceGetUuid");
  CHECK(problem() == "the NVIDIA driver " + stand_in + " has no function cuDeviceGetUuid");
}

TEST_CASE("a driver without a GPU is reported with CUDA_VISIBLE_DEVICES") {
  SECTION("cuInit finds none") {
    const variable none("FARANDOLE_FAKE_CUDA_INIT", "100");
    CHECK(problem() == "the NVIDIA driver " + stand_in + " finds no GPU");
  }
  SECTION("none is visible") {
    const variable none("FARANDOLE_FAKE_GPUS", "0");
    const variable visible("CUDA_VISIBLE_DEVICES", "7");
    CHECK_THAT(problem(), Contains("finds no GPU; CUDA_VISIBLE_DEVICES=\"7\" determines"));
  }
}

TEST_CASE("a failure of the driver is reported with its function, name and text") {
  SECTION("at the start, of a result without a text") {
    const variable fails("FARANDOLE_FAKE_CUDA_INIT", "803");
    CHECK_THAT(problem(), Contains("cannot be used: cuInit failed: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"));
  }
  SECTION("at the start, of a result that it does not know") {
    const variable fails("FARANDOLE_FAKE_CUDA_INIT", "998");
    CHECK_THAT(problem(), Contains("cannot be used: cuInit failed: error 998"));
  }
  SECTION("while the GPUs are listed") {
    const auto* function = GENERATE("cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceTotalMem",
                                    "cuDeviceGetUuid", "cuDeviceGetAttribute");
    const variable fails("FARANDOLE_FAKE_CUDA_FAILS", function);
    CHECK_THAT(problem(), Contains("cannot list its GPUs: " + std::string(function) +
                                   " failed: CUDA_ERROR_UNKNOWN (unknown error)"));
  }
}
