// Properties that only the ucx path has.
#include <dlfcn.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include "collectives/transport/p2p/p2p_testing.hpp"
#include "collectives/transport/ucx/ucx_tag.hpp"

using namespace farandole;
using namespace farandole::testing;

TEST_CASE("ucx: a change of any tag field changes the tag") {
  const ucx_tag base{5, 9, 11, message_phase::scatter, 3};
  auto changed = [&](auto change) {
    ucx_tag other = base;
    change(other);
    return other.bits() != base.bits();
  };
  CHECK(changed([](ucx_tag& t) { t.generation = 6; }));
  CHECK(changed([](ucx_tag& t) { t.set = 8; }));
  CHECK(changed([](ucx_tag& t) { t.sequence = 12; }));
  CHECK(changed([](ucx_tag& t) { t.phase = message_phase::gather; }));
  CHECK(changed([](ucx_tag& t) { t.source = 65535; }));
  CHECK(source_of(base.bits()) == 3);
  ucx_tag far = base;
  far.source = 65535;
  CHECK(source_of(far.bits()) == 65535);
}

TEST_CASE("ucx: UCX does not change the process's signals, allocator or shared memory") {
  job members("ucx", 2, [](member& self) {
    std::string problem = barrier(self, 0);
    for (const int number : {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV, SIGALRM}) {
      struct sigaction action {};
      ::sigaction(number, nullptr, &action);
      // A sanitizer installs its own handlers; these are in this executable or in its runtime, not in UCX.
      Dl_info location{};
      if (action.sa_handler != SIG_DFL &&
          ::dladdr(reinterpret_cast<void*>(action.sa_handler), &location) != 0 &&
          std::string{location.dli_fname}.find("libuc") != std::string::npos)
        problem += "signal " + std::to_string(number) + " has UCX's handler; ";
    }
    // A hooked function starts with a jump.
    void* const unmap = ::dlsym(RTLD_DEFAULT, "munmap");
    const auto* code = static_cast<const unsigned char*>(unmap);
    if ((code[0] == 0x49 && code[1] == 0xbb) || code[0] == 0xe9)
      problem += "munmap is hooked; ";
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (task.path().filename() == std::to_string(::getpid()))
        continue;
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);)
        if (line.rfind("SigBlk:", 0) == 0 && line.find("fffffffe") == std::string::npos)
          problem += "a thread takes signals (" + line + "); ";
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.find("/dev/shm/ucx") != std::string::npos || line.find("/SYSV") != std::string::npos)
        problem += "shared memory: " + line;
    return problem;
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
}
