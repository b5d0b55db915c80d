// The stand-in driver (`cuda/fake`), as tests use it: they make device memory and streams, and decide when the streams
// run.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <vector>

namespace farandole {

/// An environment variable of the stand-in, for the duration of a test.
class variable {
public:
  variable(const char* name, const std::string& value);
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;
  ~variable();

private:
  const char* name_;
};

/// Has the primary context of a device current in this thread, while it exists.
class stand_in_driver {
public:
  explicit stand_in_driver(int device = 0);
  stand_in_driver(const stand_in_driver&) = delete;
  stand_in_driver& operator=(const stand_in_driver&) = delete;
  ~stand_in_driver();

  static std::string path();

  /// A function that it exports, by the name of its symbol.
  template <class Function>
  static Function* function(const char* symbol) {
    return reinterpret_cast<Function*>(find(symbol));
  }

  // Freed and destroyed with this object.
  std::byte* device_memory(std::size_t bytes);
  std::byte* managed_memory(std::size_t bytes);
  std::byte* pinned_memory(std::size_t bytes);
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING);

  static void write(std::byte* device_memory, const std::vector<std::byte>& bytes);
  static std::vector<std::byte> read(const std::byte* device_memory, std::size_t bytes);
  /// Makes the stream fill device memory.
  static void fill(std::byte* device_memory, int value, std::size_t bytes, CUstream stream);
  static bool is_idle(CUstream stream);

  /// See fakeStreamRun.
  static unsigned run(CUstream stream, unsigned count);
  static unsigned run_all() { return run(nullptr, 0); }
  /// See fakeStreamCreated.
  static CUstream created_stream(unsigned age);
  static unsigned long calls(const char* name);
  /// Of all functions that wait for the device, or ask it how far it is.
  static unsigned long synchronising_calls();

private:
  static void* find(const char* symbol);

  std::vector<CUdeviceptr> memory_;
  std::vector<void*> pinned_;
  std::vector<CUstream> streams_;
};

} // namespace farandole
