#include "tools/farandole/gpu_report.hpp"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("GPUs, driver and NCCL are reported with their versions and files", "[check]") {
  driver_facts driver;
  driver.path = "/lib/libcuda.so.1";
  driver.cuda_version = 12080;
  driver.gpus = {{"NVIDIA H100", "01-02", std::uint64_t{80} << 30, 9, 0},
                 {"NVIDIA A10G", "03-04", 3 << 29, 8, 6}};
  const std::string gpus = "\nFarandole GPUs:\n"
                           "    NVIDIA H100, 80.0 GiB, compute capability 9.0, UUID 01-02\n"
                           "    NVIDIA A10G, 1.5 GiB, compute capability 8.6, UUID 03-04\n"
                           "    driver for CUDA 12.8: /lib/libcuda.so.1\n";
  const std::string nccl = "    NCCL 2.28.9: /lib/libnccl.so.2\n";
  const nccl_facts found{"/lib/libnccl.so.2", 22809};
  CHECK(gpu_report(driver, found, {}) == gpus + nccl +
                                             "    tensors in GPU memory move by NCCL (allreduce, broadcast) "
                                             "if each rank has a GPU of its own, and "
                                             "otherwise through pinned host memory\n");
  CHECK(gpu_report(driver, found, {error_kind::unimplemented, "no kernels"}) ==
        gpus + nccl + "    tensors in GPU memory move through pinned host memory, not by NCCL: no kernels\n");
  CHECK(
      gpu_report(driver, error{error_kind::unimplemented, "there is no NCCL (why)"}, {}) ==
      gpus + "    NCCL: none; there is no NCCL (why)\n" +
          "    tensors in GPU memory move through pinned host memory, not by NCCL: there is no NCCL (why)\n");
}

TEST_CASE("a machine without GPUs is reported with the reason", "[check]") {
  const error reason{error_kind::unimplemented, "there is no NVIDIA driver (why)"};
  CHECK(gpu_report(reason, reason, {}) == "\nFarandole GPUs:\n    none: there is no NVIDIA driver (why)\n");
}

TEST_CASE("NCCL is looked for in the packages of Python's environment, and then by the loader", "[check]") {
  const std::vector<std::string> by_the_loader{"libnccl.so.2"};
  CHECK(nccl_candidates(std::nullopt) == by_the_loader);
  CHECK(nccl_candidates("/no/such/environment/bin/python3") == by_the_loader);

  const temporary_folder environment;
  const auto folder = std::filesystem::path(environment.path());
  const auto library = folder / "lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2";
  std::filesystem::create_directories(folder / "bin");
  std::filesystem::create_directories(library.parent_path());
  std::ofstream(library) << "it only has to exist";
  CHECK(nccl_candidates((folder / "bin/python3").string()) ==
        std::vector<std::string>{library.string(), "libnccl.so.2"});
}
