#include "cuda/driver/driver_facts.hpp"

#include <array>
#include <cstdio>

#include "cuda/driver/driver_functions.hpp"
#include "cuda/driver/driver_start.hpp"

namespace farandole {

namespace {

std::string uuid_text(const CUuuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      text += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits.data();
  }
  return text;
}

/// Calls a function of the driver unless an earlier call has failed, and keeps the first failure.
class checked_calls {
public:
  explicit checked_calls(const driver_functions& driver) : driver_(driver) {}

  template <class Function, class... Arguments>
  void call(const char* name, Function function, Arguments... arguments) {
    if (!failure_.empty())
      return;
    if (const auto result = function(arguments...); result != CUDA_SUCCESS)
      failure_ = driver_.failure(name, result);
  }
  const std::string& failure() const { return failure_; }

private:
  const driver_functions& driver_;
  std::string failure_;
};

gpu_facts describe(const driver_functions& driver, int index, checked_calls& calls) {
  constexpr int name_bytes = 256;
  gpu_facts gpu;
  CUdevice device = 0;
  std::array<char, name_bytes> name{};
  std::size_t bytes = 0;
  CUuuid uuid{};
  calls.call("cuDeviceGet", driver.device, &device, index);
  calls.call("cuDeviceGetName", driver.device_name, name.data(), name_bytes, device);
  calls.call("cuDeviceTotalMem", driver.device_memory, &bytes, device);
  calls.call("cuDeviceGetUuid", driver.device_uuid, &uuid, device);
  calls.call("cuDeviceGetAttribute", driver.device_attribute, &gpu.compute_major,
             CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  calls.call("cuDeviceGetAttribute", driver.device_attribute, &gpu.compute_minor,
             CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  name.back() = '\0';
  gpu.name = name.data();
  gpu.uuid = uuid_text(uuid);
  gpu.memory_bytes = bytes;
  return gpu;
}

} // namespace

expected<driver_facts> find_driver(const std::string& library) {
  const auto loaded = load_driver(library);
  if (!loaded)
    return loaded.error();
  const auto& driver = *loaded;
  driver_facts facts;
  facts.path = driver.path;
  const auto count = start_driver(driver);
  if (!count)
    return count.error();
  facts.cuda_version = driver.version;
  checked_calls calls(driver);
  for (int index = 0; index < *count && calls.failure().empty(); ++index)
    facts.gpus.push_back(describe(driver, index, calls));
  if (!calls.failure().empty())
    return error{error_kind::unknown,
                 "the NVIDIA driver " + facts.path + " cannot list its GPUs: " + calls.failure()};
  return facts;
}

} // namespace farandole
