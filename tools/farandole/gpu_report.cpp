#include "tools/farandole/gpu_report.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "cuda/nccl/communicator.hpp"

namespace farandole {

namespace {

namespace fs = std::filesystem;

constexpr const char* nccl_file = "libnccl.so.2";
constexpr const char* title = "\nFarandole GPUs:\n";

std::string line(const std::string& text) {
  return "    " + text + "\n";
}

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

} // namespace

std::vector<std::string> nccl_candidates(const std::optional<std::string>& python) {
  std::vector<std::string> candidates;
  std::error_code problem; // folders that cannot be read have no NCCL
  if (python)
    for (const auto& entry : fs::directory_iterator(fs::path(*python).parent_path() / "../lib", problem)) {
      if (entry.path().filename().string().rfind("python3", 0) != 0)
        continue;
      const auto file = entry.path() / "site-packages/nvidia/nccl/lib" / nccl_file;
      if (fs::exists(file, problem))
        candidates.push_back(file.lexically_normal().string());
    }
  std::sort(candidates.begin(), candidates.end());
  candidates.emplace_back(nccl_file);
  return candidates;
}

std::string gpu_report(const expected<driver_facts>& driver, const expected<nccl_facts>& nccl,
                       const error& objection) {
  if (!driver)
    return title + line("none: " + driver.error().text);
  std::string text = title;
  for (const auto& gpu : driver->gpus)
    text += line(gpu.name + ", " + gib(gpu.memory_bytes) + ", compute capability " +
                 std::to_string(gpu.compute_major) + "." + std::to_string(gpu.compute_minor) + ", UUID " +
                 gpu.uuid);
  text += line("driver for CUDA " + cuda_version_text(driver->cuda_version) + ": " + driver->path);
  text += line(nccl ? "NCCL " + nccl_version_text(nccl->version) + ": " + nccl->path
                    : "NCCL: none; " + nccl.error().text);
  if (nccl && !objection)
    return text +
           line("tensors in GPU memory move by NCCL (allreduce, broadcast) if each rank has a GPU of its "
                "own, and otherwise through pinned host memory");
  return text + line("tensors in GPU memory move through pinned host memory, not by NCCL: " +
                     (objection ? objection.text : nccl.error().text));
}

std::string find_and_report_gpus(const std::optional<std::string>& python) {
  const auto driver = find_driver();
  if (!driver)
    return gpu_report(driver, driver.error(), {});
  return gpu_report(driver, find_nccl(nccl_candidates(python)), nccl_library::objection_to_build());
}

} // namespace farandole
