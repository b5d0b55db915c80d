// The life of communicators of the stand-in for NCCL: what is refused, what is in progress, and what they report.
#include <catch2/catch.hpp>

#include <thread>

#include "cuda/fake/stand_in_nccl_testing.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

std::string last_error() {
  return nccl().last_error(nullptr);
}

/// Two ranks that one thread drives; the device of the second is current.
struct non_blocking_pair {
  nccl_rank first{0, 2}, second{1, 2};

  void init() {
    const auto id = new_unique_id();
    {
      const stand_in_driver gpu(0);
      REQUIRE(first.init_non_blocking(id) == ncclInProgress);
    }
    REQUIRE(second.init_non_blocking(id) == ncclInProgress);
    REQUIRE(first.reaches(ncclSuccess));
    REQUIRE(second.reaches(ncclSuccess));
  }
  void destroy() const {
    CHECK(nccl().destroy(first.comm) == ncclSuccess);
    CHECK(nccl().destroy(second.comm) == ncclSuccess);
  }
};

} // namespace

TEST_CASE("communicators know their size and rank, and are counted while they live") {
  CHECK(run_ranks(2, [](nccl_rank& own) -> std::string {
          int size = 0, rank = -1;
          nccl().count(own.comm, &size);
          nccl().user_rank(own.comm, &rank);
          return size == 2 && rank == own.rank && nccl().communicators() >= 1 ? "" : "wrong; ";
        }) == "");
  CHECK(nccl().communicators() == 0);
}

TEST_CASE("calls are counted by name, and results have texts") {
  int version = 0;
  const auto before = nccl().calls("ncclGetVersion");
  CHECK(nccl().get_version(&version) == ncclSuccess);
  CHECK(version == 22809);
  CHECK(nccl().calls("ncclGetVersion") == before + 1);
  CHECK_THAT(nccl().error_string(ncclRemoteError), Contains("remote"));
  CHECK_THAT(nccl().error_string(ncclNumResults), Contains("unknown"));
}

TEST_CASE("wrong arguments of an initialisation are refused") {
  nccl_rank own(0, 1);
  CHECK(nccl().init_rank(&own.comm, 1, {}, 0) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("unique id"));
  CHECK(nccl().init_rank(&own.comm, 1, new_unique_id(), 1) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("rank 1 of 1"));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  CHECK(nccl().init_rank_config(&own.comm, 1, new_unique_id(), 0, &config) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("NCCL_CONFIG_INITIALIZER"));
  CHECK(own.comm == nullptr);
  CHECK(nccl().group_end() == ncclInvalidUsage);
}

TEST_CASE("wrong arguments of an operation are refused, with their names") {
  nccl_rank own(0, 1);
  REQUIRE(own.init(new_unique_id()) == ncclSuccess);
  auto* memory = own.gpu.device_memory(16);
  const auto reduce = [&](const void* input, std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
    return nccl().all_reduce(input, memory, count, type, op, own.comm, own.stream);
  };
  CHECK(reduce(nullptr, 4, ncclInt8, ncclSum) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("ncclAllReduce: sendbuff is null"));
  CHECK(reduce(memory, 4, ncclFloat8e4m3, ncclSum) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("data type 10"));
  CHECK(reduce(memory, 4, ncclInt8, ncclAvg) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("operator 4"));
  CHECK(reduce(memory, 17, ncclInt8, ncclSum) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("sendbuff") && Contains("too short"));
  const int in_host_memory = 0;
  CHECK(reduce(&in_host_memory, 4, ncclInt8, ncclSum) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("not memory that a GPU reaches"));
  {
    stand_in_driver other(1);
    CHECK(reduce(other.device_memory(16), 4, ncclInt8, ncclSum) == ncclInvalidArgument);
    CHECK_THAT(last_error(), Contains("memory of GPU 1"));
  }
  CHECK(nccl().broadcast(memory, memory, 4, ncclInt8, 1, own.comm, own.stream) == ncclInvalidArgument);
  CHECK_THAT(last_error(), Contains("there is no rank 1"));
  CHECK(nccl().send(memory, 4, ncclInt8, -1, own.comm, own.stream) == ncclInvalidArgument);
  CHECK(reduce(memory, 4, ncclInt8, ncclSum) == ncclSuccess); // the communicator is still of use
  CHECK(nccl().destroy(own.comm) == ncclSuccess);
}

TEST_CASE("a group with a refused call launches nothing and reports its result") {
  nccl_rank own(0, 1);
  REQUIRE(own.init(new_unique_id()) == ncclSuccess);
  const auto before = nccl().kernels_launched();
  REQUIRE(nccl().group_start() == ncclSuccess);
  CHECK(own.reduce_anything() == ncclSuccess);
  CHECK(nccl().send(nullptr, 4, ncclInt8, 0, own.comm, own.stream) == ncclInvalidArgument);
  CHECK(nccl().group_end() == ncclInvalidArgument);
  CHECK(nccl().kernels_launched() == before);
  REQUIRE(nccl().group_start() == ncclSuccess);
  CHECK(nccl().group_end() == ncclSuccess);
  CHECK(nccl().destroy(own.comm) == ncclSuccess);
}

TEST_CASE("ranks on one device of one host are refused before version 2.30") {
  const auto id = new_unique_id();
  ncclResult_t results[2] = {ncclSuccess, ncclSuccess};
  const auto init_both = [&](const ncclUniqueId& both) {
    std::thread other([&] {
      nccl_rank own(1, 2, 0);
      results[1] = own.init(both);
      if (results[1] == ncclSuccess)
        nccl().destroy(own.comm);
    });
    nccl_rank own(0, 2, 0);
    results[0] = own.init(both);
    if (results[0] == ncclSuccess)
      nccl().destroy(own.comm);
    other.join();
  };
  init_both(id);
  CHECK(results[0] == ncclInvalidUsage);
  CHECK(results[1] == ncclInvalidUsage);
  CHECK_THAT(last_error(), Contains("duplicate GPU: ranks 0 and 1 use device 0"));
  const variable newer("FARANDOLE_FAKE_NCCL", "23000");
  init_both(new_unique_id());
  CHECK(results[0] == ncclSuccess);
  CHECK(results[1] == ncclSuccess);
}

TEST_CASE("ranks that state different sizes, or the same rank, are refused") {
  for (const bool same_rank : {false, true}) {
    nccl_rank first(0, 2), second(same_rank ? 0 : 1, same_rank ? 2 : 3, 1);
    const auto id = new_unique_id();
    {
      const stand_in_driver gpu(0);
      REQUIRE(first.init_non_blocking(id) == ncclInProgress);
    }
    REQUIRE(second.init_non_blocking(id) == ncclInProgress);
    CHECK(first.reaches(ncclInvalidUsage));
    CHECK(second.reaches(ncclInvalidUsage));
    CHECK_THAT(last_error(), Contains(same_rank ? "have rank 0" : "different sizes"));
    CHECK(nccl().destroy(first.comm) == ncclInvalidUsage); // it has to be aborted
    CHECK(nccl().abort(first.comm) == ncclSuccess);
    CHECK(nccl().abort(second.comm) == ncclSuccess);
  }
}

TEST_CASE("ranks with different versions of NCCL are refused") {
  nccl_rank first(0, 2), second(1, 2);
  const auto id = new_unique_id();
  {
    const stand_in_driver gpu(0);
    REQUIRE(first.init_non_blocking(id) == ncclInProgress);
  }
  const variable older("FARANDOLE_FAKE_NCCL", "22205");
  REQUIRE(second.init_non_blocking(id) == ncclInProgress);
  CHECK(first.reaches(ncclInvalidUsage));
  CHECK(second.reaches(ncclInvalidUsage));
  CHECK_THAT(last_error(), Contains("different versions of NCCL: 22809 and 22205"));
  CHECK(nccl().abort(first.comm) == ncclSuccess);
  CHECK(nccl().abort(second.comm) == ncclSuccess);
}

TEST_CASE("an old version refuses functions that came later") {
  nccl_rank own(0, 1);
  REQUIRE(own.init(new_unique_id()) == ncclSuccess);
  const variable older("FARANDOLE_FAKE_NCCL", "22205");
  CHECK(nccl().revoke(own.comm, NCCL_REVOKE_DEFAULT) == ncclInvalidUsage);
  CHECK_THAT(last_error(), Contains("ncclCommRevoke: NCCL has it from version code 22807 on"));
  CHECK(nccl().destroy(own.comm) == ncclSuccess);
}

TEST_CASE("a non-blocking communicator is in progress until all ranks have come") {
  nccl_rank first(0, 2), second(1, 2);
  const auto id = new_unique_id();
  int size = 0;
  {
    const stand_in_driver gpu(0);
    REQUIRE(first.init_non_blocking(id) == ncclInProgress);
  }
  CHECK(first.state() == ncclInProgress);
  CHECK(first.reduce_anything() == ncclInvalidUsage);
  CHECK_THAT(last_error(), Contains("in progress"));
  CHECK(nccl().count(first.comm, &size) == ncclInvalidUsage);
  CHECK(nccl().destroy(first.comm) == ncclInvalidUsage);
  REQUIRE(second.init_non_blocking(id) == ncclInProgress);
  CHECK(first.reaches(ncclSuccess));
  CHECK(second.reaches(ncclSuccess));
  CHECK(nccl().destroy(first.comm) == ncclSuccess);
  CHECK(nccl().destroy(second.comm) == ncclSuccess);
}

TEST_CASE("an operation of a non-blocking communicator is launched while it is polled") {
  non_blocking_pair pair;
  pair.init();
  const auto launched = nccl().kernels_launched();
  CHECK(pair.second.reduce_anything() == ncclInProgress);
  CHECK(pair.second.reduce_anything() == ncclInvalidUsage);
  CHECK(pair.second.state() == ncclInProgress);
  CHECK(nccl().kernels_launched() == launched);
  CHECK(pair.second.state() == ncclSuccess);
  CHECK(nccl().kernels_launched() == launched + 1);

  CHECK(nccl().finalize(pair.second.comm) == ncclInProgress);
  CHECK(pair.second.state() == ncclInProgress); // its kernel waits for the first rank
  {
    const stand_in_driver gpu(0);
    CHECK(pair.first.reduce_anything() == ncclInProgress);
    CHECK(pair.first.reaches(ncclSuccess));
  }
  CHECK(pair.second.reaches(ncclSuccess));
  CHECK(pair.second.reduce_anything() == ncclInvalidUsage);
  CHECK_THAT(last_error(), Contains("was finalized"));
  pair.destroy();
}

TEST_CASE("blocking and non-blocking communicators are not mixed in a group") {
  nccl_rank own(0, 1), other(0, 1);
  REQUIRE(own.init(new_unique_id()) == ncclSuccess);
  REQUIRE(other.init_non_blocking(new_unique_id()) == ncclInProgress);
  REQUIRE(other.reaches(ncclSuccess));
  nccl().group_start();
  CHECK(own.reduce_anything() == ncclSuccess);
  CHECK(other.reduce_anything() == ncclSuccess);
  CHECK(nccl().group_end() == ncclInvalidArgument);
  CHECK(nccl().destroy(own.comm) == ncclSuccess);
  CHECK(nccl().destroy(other.comm) == ncclSuccess);
}

TEST_CASE("a launch that fails stays the communicator's error; then only an abort ends it") {
  for (const bool blocking : {true, false}) {
    nccl_rank own(0, 1);
    const auto id = new_unique_id();
    REQUIRE((blocking ? own.init(id) : own.init_non_blocking(id)) ==
            (blocking ? ncclSuccess : ncclInProgress));
    REQUIRE(own.reaches(ncclSuccess));
    const variable fails("FARANDOLE_FAKE_NCCL_FAILS", "launch:2");
    CHECK(own.reduce_anything() == (blocking ? ncclSuccess : ncclInProgress));
    CHECK(own.reaches(ncclSuccess));
    CHECK(own.reduce_anything() == (blocking ? ncclUnhandledCudaError : ncclInProgress));
    CHECK(own.reaches(ncclUnhandledCudaError));
    CHECK_THAT(last_error(), Contains("the launch of a kernel failed"));
    CHECK(own.reduce_anything() == ncclUnhandledCudaError);
    CHECK(nccl().destroy(own.comm) == ncclUnhandledCudaError);
    CHECK(nccl().abort(own.comm) == ncclSuccess);
    CHECK(nccl().communicators() == 0);
  }
}

TEST_CASE("a function fails from the call on that the environment names") {
  const variable fails("FARANDOLE_FAKE_NCCL_FAILS", "ncclAllReduce:2,ncclGetUniqueId");
  nccl_rank own(0, 1);
  ncclUniqueId id{};
  CHECK(nccl().get_unique_id(&id) == ncclInternalError);
  CHECK_THAT(last_error(), Contains("FARANDOLE_FAKE_NCCL_FAILS"));
  ::unsetenv("FARANDOLE_FAKE_NCCL_FAILS");
  REQUIRE(own.init(new_unique_id()) == ncclSuccess);
  const variable again("FARANDOLE_FAKE_NCCL_FAILS", "ncclAllReduce:2");
  CHECK(own.reduce_anything() == ncclSuccess);
  CHECK(own.reduce_anything() == ncclInternalError);
  CHECK(nccl().destroy(own.comm) == ncclSuccess);
}

TEST_CASE("operations of several ranks are refused while streams are manual; those of one rank are not") {
  non_blocking_pair pair;
  pair.init();
  nccl_rank alone(1, 1);
  alone.rank = 0;
  REQUIRE(alone.init(new_unique_id()) == ncclSuccess);
  const variable manual("FARANDOLE_FAKE_CUDA_STREAMS", "manual");
  auto* memory = alone.upload(std::vector<std::int32_t>{3});
  CHECK(nccl().all_reduce(memory, memory, 1, ncclInt32, ncclSum, alone.comm, alone.stream) == ncclSuccess);
  CHECK(nccl().kernels_unfinished(1) == 1);
  CHECK(stand_in_driver::run(alone.stream, 9) == 1);
  CHECK(nccl().kernels_unfinished(1) == 0);
  CHECK(alone.download<std::int32_t>(memory, 1).front() == 3);
  CHECK(pair.second.reduce_anything() == ncclInProgress);
  CHECK(pair.second.reaches(ncclInvalidUsage));
  CHECK_THAT(last_error(), Contains("while streams are manual"));
  CHECK(nccl().abort(pair.first.comm) == ncclSuccess);
  CHECK(nccl().abort(pair.second.comm) == ncclSuccess);
  CHECK(nccl().destroy(alone.comm) == ncclSuccess);
}

TEST_CASE("an operation on a stream that is captured never runs, and no other waits for it") {
  nccl_rank own(0, 1);
  REQUIRE(own.init(new_unique_id()) == ncclSuccess);
  auto* captured = own.gpu.stream();
  auto* memory = own.upload(std::vector<std::int32_t>{3});
  CUgraph graph = nullptr;
  stand_in_driver::function<decltype(cuStreamBeginCapture)>("cuStreamBeginCapture_v2")(
      captured, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(nccl().all_reduce(memory, memory, 1, ncclInt32, ncclSum, own.comm, captured) == ncclSuccess);
  CHECK(stand_in_driver::function<decltype(cuStreamEndCapture)>("cuStreamEndCapture")(captured, &graph) ==
        CUDA_SUCCESS);
  CHECK(own.reduce_anything() == ncclSuccess);
  CHECK(nccl().destroy(own.comm) == ncclSuccess);
}
