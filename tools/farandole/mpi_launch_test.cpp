#include "tools/farandole/mpi_launch.hpp"

#include <catch2/catch.hpp>

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/temporary_folder.hpp"

using namespace farandole;

TEST_CASE("a rank file that cannot be written is removed, and the reason is told") {
  const testing::temporary_folder folder;
  run_request request;
  request.hosts = {{"a", 1}};
  request.processes = request.rank_file_cpus = 1;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{16, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const auto* const temporary = ::getenv("TMPDIR");
  const std::string elsewhere = temporary ? temporary : "/tmp";
  ::setenv("TMPDIR", folder.path().c_str(), 1);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto path = write_rank_file_for_parent(request);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::setenv("TMPDIR", elsewhere.c_str(), 1);
  ::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(path);
  CHECK_THAT(path.error().text, Catch::Contains(std::strerror(EFBIG)));
  CHECK(std::filesystem::is_empty(folder.path()));
}
