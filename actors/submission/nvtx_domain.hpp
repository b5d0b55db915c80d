// NVTX is NVIDIA's interface through which a program names ranges of time for profilers. A domain is a group of ranges. It
// consists of headers only, which a build may lack: CMake then compiles nvtx_domain_none.cpp instead of nvtx_domain.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace farandole {

/// Thread-safe.
class nvtx_domain {
public:
  /// Whether this build has NVTX.
  static bool is_built_in();

  /// The first domain of the process lets NVTX load the tool that NVTX_INJECTION64_PATH names, if there is one.
  explicit nvtx_domain(const char* name);
  ~nvtx_domain();
  nvtx_domain(const nvtx_domain&) = delete;
  nvtx_domain& operator=(const nvtx_domain&) = delete;

  /// Whether a tool receives the ranges. Constant.
  bool has_listener() const { return handle_ != nullptr; }

  /// Begins a range. Only if there is a listener.
  std::uint64_t begin(const std::string& name, std::uint64_t payload) const;
  /// Ends it, on any thread.
  void end(std::uint64_t range) const;

private:
  void* handle_ = nullptr;
};

} // namespace farandole
