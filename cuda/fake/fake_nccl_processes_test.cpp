// The stand-in for NCCL between processes: results, death, and what is left behind.
#include <catch2/catch.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <memory>

#include "cuda/fake/stand_in_nccl_testing.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

std::size_t entries(const char* folder) {
  using iterator = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(iterator(folder), iterator()));
}

std::size_t threads() {
  return entries("/proc/self/task");
}

std::size_t descriptors() {
  return entries("/proc/self/fd");
}

} // namespace

// Hidden: nccl_process runs it in child processes.
TEST_CASE("a rank in a process of its own", "[.]") {
  run_rank_process();
}

TEST_CASE("three ranks in processes of their own add up their values") {
  const variable gpus("FARANDOLE_FAKE_GPUS", "3");
  const auto id = new_unique_id();
  std::vector<std::unique_ptr<nccl_process>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(std::make_unique<nccl_process>("sum", rank, 3, id));
  for (const auto& rank : ranks)
    CHECK(rank->hear() == "sum 6");
}

TEST_CASE("processes with different host ids may use the same device") {
  const auto id = new_unique_id();
  nccl_process other("sum", 1, 2, id, {"NCCL_HOSTID=other", "TEST_DEVICE=0"});
  nccl_rank own(0, 2);
  REQUIRE(own.init(id) == ncclSuccess);
  auto* memory = own.upload(std::vector<std::int64_t>{1});
  REQUIRE(nccl().all_reduce(memory, memory, 1, ncclInt64, ncclSum, own.comm, own.stream) == ncclSuccess);
  CHECK(own.download<std::int64_t>(memory, 1).front() == 3);
  CHECK(other.hear() == "sum 3");
  CHECK(nccl().destroy(own.comm) == ncclSuccess);
}

TEST_CASE("processes with the same device and host id are refused") {
  const auto id = new_unique_id();
  nccl_process other("sum", 1, 2, id, {"TEST_DEVICE=0"});
  nccl_rank own(0, 2);
  CHECK(own.init(id) == ncclInvalidUsage);
  CHECK_THAT(nccl().last_error(nullptr), Contains("duplicate GPU"));
  CHECK_THAT(other.hear(), Contains("duplicate GPU"));
}

TEST_CASE(
    "after the death of a peer, kernels wait until they are revoked or aborted, and the error is reported") {
  const variable gpus("FARANDOLE_FAKE_GPUS", "3");
  const auto id = new_unique_id();
  nccl_process dying("wait", 2, 3, id);
  nccl_rank first(0, 3), second(1, 3);
  {
    const stand_in_driver gpu(0);
    REQUIRE(first.init_non_blocking(id) == ncclInProgress);
  }
  REQUIRE(second.init(id) == ncclSuccess);
  REQUIRE(first.reaches(ncclSuccess));
  CHECK(dying.hear() == "ready");
  {
    const stand_in_driver gpu(0);
    REQUIRE(first.reduce_anything() == ncclInProgress);
  }
  REQUIRE(first.reaches(ncclSuccess));
  REQUIRE(second.reduce_anything() == ncclSuccess);
  for (const int device : {0, 1})
    REQUIRE(nccl().wait_for_kernels(device, 1, patience_ms) == 1);

  dying.kill();
  CHECK(first.reaches(ncclRemoteError));
  CHECK(second.reaches(ncclRemoteError));
  CHECK_THAT(nccl().last_error(nullptr), Contains("rank 2 is gone"));
  CHECK(nccl().kernels_running(0) + nccl().kernels_running(1) == 2);
  CHECK(second.reduce_anything() == ncclRemoteError);
  CHECK(nccl().destroy(second.comm) == ncclRemoteError);

  CHECK(nccl().revoke(first.comm, NCCL_REVOKE_DEFAULT) == ncclInProgress);
  CHECK(nccl().revoke(second.comm, NCCL_REVOKE_DEFAULT) == ncclSuccess);
  for (const int device : {0, 1})
    CHECK(nccl().wait_for_kernels(device, 0, patience_ms) == 1);
  CHECK(first.state() == ncclRemoteError); // it stays
  CHECK(nccl().abort(first.comm) == ncclSuccess);
  CHECK(nccl().abort(second.comm) == ncclSuccess);
}

TEST_CASE("the death of the process that made the unique id is reported as that of a peer") {
  nccl_process hub("hub", 0, 2, {});
  const auto id = unique_id_of(hub.hear());
  nccl_rank own(1, 2);
  REQUIRE(own.init(id) == ncclSuccess);
  CHECK(hub.hear() == "ready");
  REQUIRE(own.reduce_anything() == ncclSuccess);
  hub.kill();
  CHECK(own.reaches(ncclRemoteError));
  CHECK(nccl().kernels_unfinished(1) == 1);
  CHECK(nccl().abort(own.comm) == ncclSuccess);
  CHECK(own.init(id) == ncclSystemError); // its socket is closed
  CHECK_THAT(nccl().last_error(nullptr), Contains("cannot connect"));
}

TEST_CASE("a peer that dies before all have come ends the initialisation of the others") {
  const auto id = new_unique_id();
  const auto before = nccl().introductions();
  nccl_process dying("wait", 1, 3, id);
  nccl_rank own(0, 3);
  REQUIRE(own.init_non_blocking(id) == ncclInProgress);
  REQUIRE(comes_true([&] { return nccl().introductions() == before + 2; }));
  CHECK(own.state() == ncclInProgress);
  dying.kill();
  CHECK(own.reaches(ncclRemoteError));
  CHECK_THAT(nccl().last_error(nullptr), Contains("rank 1 is gone"));
  CHECK(nccl().abort(own.comm) == ncclSuccess);
}

TEST_CASE("a rank that comes after others were refused and have ended is told the reason") {
  const auto id = new_unique_id();
  nccl_process first("wait", 1, 3, id), second("wait", 1, 3, id);
  for (auto* refused : {&first, &second}) {
    CHECK_THAT(refused->hear(), Contains("have rank 1"));
    CHECK(refused->hear() == ""); // it has ended
  }
  nccl_rank own(0, 3);
  CHECK(own.init(id) == ncclInvalidUsage);
  CHECK_THAT(nccl().last_error(nullptr), Contains("have rank 1"));
  CHECK(nccl().abort(own.comm) == ncclSuccess);
}

TEST_CASE("abort and destroy hang if the environment says so, until the process ends") {
  for (const std::string call : {"abort", "destroy"}) {
    const auto id = new_unique_id();
    nccl_process other("hang", 1, 2, id, {"FARANDOLE_FAKE_NCCL_HANG=" + call});
    nccl_rank own(0, 2);
    REQUIRE(own.init(id) == ncclSuccess);
    CHECK(other.hear() == "hangs");
    CHECK_FALSE(other.says_something(200)); // it would say "returned"
    other.kill();
    CHECK(other.hear() == "");
    CHECK(nccl().abort(own.comm) == ncclSuccess);
  }
}

TEST_CASE("a process ends although kernels, communicators and unique ids are left") {
  nccl_process other("leave", 0, 1, new_unique_id());
  CHECK(other.hear() == "leaves");
  CHECK(other.wait() == 0);
}

TEST_CASE("a process of another user gets no connection") {
  if (::geteuid() != 0) {
    WARN("only root can become another user");
    return;
  }
  const auto id = new_unique_id();
  const std::string name = "farandole-fake-nccl-" + std::string(id.internal).substr(9);
  const pid_t child = ::fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    for (std::size_t i = 0; i < name.size(); ++i)
      address.sun_path[i + 1] = name[i];
    const int connected = ::socket(AF_UNIX, SOCK_STREAM, 0);
    char letter = 0;
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const bool is_refused = ::setuid(65534) == 0 &&
                            ::connect(connected, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 &&
                            ::read(connected, &letter, 1) == 0;
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  nccl_rank own(0, 1); // the unique id is still of use
  REQUIRE(own.init(id) == ncclSuccess);
  CHECK(nccl().destroy(own.comm) == ncclSuccess);
}

TEST_CASE("communicators leave no thread and no socket behind") {
  const auto use = [] {
    return run_ranks(2, [](nccl_rank& own) -> std::string { return differs(own.reduce_anything(), "sum"); });
  };
  REQUIRE(use() == ""); // streams' threads and the library's own descriptors are made once
  const auto count = [] { return std::vector{threads(), descriptors()}; };
  const auto before = count();
  for (int i = 0; i < 3; ++i)
    REQUIRE(use() == "");
  // The hub's thread ends behind the last rank.
  CHECK(comes_true([&] {
    const auto after = count();
    return after[0] <= before[0] && after[1] <= before[1];
  }));
}
