// Kernels of the stand-in for NCCL that wait for ever, and how communicators end then.
#include <catch2/catch.hpp>

#include <chrono>
#include <future>
#include <thread>

#include "cuda/fake/stand_in_nccl_testing.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

/// One device of a job with two communicators, each with a stream.
struct two_communicators {
  nccl_rank a, b;

  explicit two_communicators(int rank) : a(rank, 2), b(rank, 2) {}
  std::string init(const ncclUniqueId& id_a, const ncclUniqueId& id_b) {
    auto text = differs(a.init(id_a), "init of A");
    return text + differs(b.init(id_b), "init of B");
  }
};

bool kernels_run(int device, unsigned count) {
  return nccl().wait_for_kernels(device, count, patience_ms) == 1;
}

/// A call in a thread of its own.
std::future<ncclResult_t> in_thread(const std::function<ncclResult_t()>& call) {
  return std::async(std::launch::async, call);
}

bool returns(std::future<ncclResult_t>& call) {
  return call.wait_for(std::chrono::milliseconds(patience_ms)) == std::future_status::ready;
}

/// For events that must not happen, in milliseconds: if they do, they are expected within this time.
constexpr unsigned glance_ms = 100;

/// Whether it has not returned within a glance.
bool waits(std::future<ncclResult_t>& call) {
  return call.wait_for(std::chrono::milliseconds(glance_ms)) == std::future_status::timeout;
}

/// A rank of two whose peer never calls. `peer` belongs to another thread's device, and is only initialised.
struct lonely_pair {
  nccl_rank peer, own;

  explicit lonely_pair(int device = 1) : peer(1, 2, 1 - device), own(0, 2, device) {
    const auto id = new_unique_id();
    {
      const stand_in_driver gpu(1 - device);
      REQUIRE(peer.init_non_blocking(id) == ncclInProgress);
    }
    REQUIRE(own.init(id) == ncclSuccess);
    REQUIRE(peer.reaches(ncclSuccess));
  }
};

} // namespace

TEST_CASE("a kernel waits for its peers, and abort ends it") {
  lonely_pair pair;
  REQUIRE(pair.own.reduce_anything() == ncclSuccess);
  auto* behind = pair.own.gpu.device_memory(8);
  pair.own.gpu.fill(behind, 1, 8, pair.own.stream);
  REQUIRE(kernels_run(1, 1));
  CHECK_FALSE(pair.own.is_idle());
  CHECK(pair.own.state() == ncclSuccess);
  CHECK(nccl().abort(pair.own.comm) == ncclSuccess);
  CHECK(pair.own.is_idle());
  CHECK(nccl().kernels_unfinished(1) == 0);
  CHECK(pair.peer.reaches(ncclRemoteError)); // the connection has closed
  CHECK(nccl().abort(pair.peer.comm) == ncclSuccess);
  CHECK(nccl().communicators() == 0);
}

TEST_CASE("the kernel of a group waits for all of its streams, and their later work waits for it") {
  lonely_pair pair;
  auto* second = pair.own.gpu.stream();
  std::promise<void> release;
  auto released = release.get_future();
  stand_in_driver::function<decltype(cuLaunchHostFunc)>("cuLaunchHostFunc")(
      second, [](void* argument) { static_cast<std::future<void>*>(argument)->wait(); }, &released);
  auto* memory = pair.own.gpu.device_memory(8);
  REQUIRE(nccl().group_start() == ncclSuccess);
  for (auto* stream : {pair.own.stream, second})
    CHECK(nccl().all_reduce(memory, memory, 8, ncclInt8, ncclSum, pair.own.comm, stream) == ncclSuccess);
  REQUIRE(nccl().group_end() == ncclSuccess);
  pair.own.gpu.fill(memory, 1, 8, second);
  CHECK(nccl().wait_for_kernels(1, 1, glance_ms) == 0);
  release.set_value();
  REQUIRE(kernels_run(1, 1));
  auto synchronise = in_thread([&] {
    const stand_in_driver gpu(1);
    stand_in_driver::function<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(second);
    return ncclSuccess;
  });
  CHECK(waits(synchronise));
  CHECK(nccl().abort(pair.own.comm) == ncclSuccess);
  CHECK(returns(synchronise));
  CHECK(nccl().abort(pair.peer.comm) == ncclSuccess);
}

TEST_CASE("an abort waits for the kernels of other communicators on the device") {
  lonely_pair first, second;
  REQUIRE(first.own.reduce_anything() == ncclSuccess);
  REQUIRE(second.own.reduce_anything() == ncclSuccess);
  REQUIRE(kernels_run(1, 2));
  auto abort_first = in_thread([&] { return nccl().abort(first.own.comm); });
  REQUIRE(kernels_run(1, 1)); // its own kernel has ended
  CHECK(waits(abort_first));
  auto abort_second = in_thread([&] { return nccl().abort(second.own.comm); });
  CHECK(returns(abort_first));
  CHECK(returns(abort_second));
  CHECK(nccl().abort(first.peer.comm) == ncclSuccess);
  CHECK(nccl().abort(second.peer.comm) == ncclSuccess);
}

TEST_CASE("after both communicators are revoked, one thread can abort them one after the other") {
  lonely_pair first, second;
  REQUIRE(first.own.reduce_anything() == ncclSuccess);
  REQUIRE(second.own.reduce_anything() == ncclSuccess);
  REQUIRE(kernels_run(1, 2));
  CHECK(nccl().revoke(first.own.comm, 1) == ncclInvalidArgument);
  CHECK(nccl().revoke(first.own.comm, NCCL_REVOKE_DEFAULT) == ncclSuccess);
  CHECK(nccl().revoke(second.own.comm, NCCL_REVOKE_DEFAULT) == ncclSuccess);
  CHECK(first.own.reaches(ncclSuccess)); // in progress until its kernel has ended
  CHECK(first.own.reduce_anything() == ncclInvalidUsage);
  CHECK_THAT(nccl().last_error(nullptr), Contains("was revoked"));
  CHECK(nccl().revoke(first.own.comm, NCCL_REVOKE_DEFAULT) == ncclInvalidArgument);
  CHECK(nccl().finalize(first.own.comm) == ncclInvalidArgument);
  CHECK(nccl().abort(first.own.comm) == ncclSuccess);
  CHECK(nccl().destroy(second.own.comm) == ncclSuccess);
  CHECK(nccl().abort(first.peer.comm) == ncclSuccess);
  CHECK(nccl().abort(second.peer.comm) == ncclSuccess);
}

TEST_CASE("destroy waits for the communicator's kernels") {
  lonely_pair pair;
  REQUIRE(pair.own.reduce_anything() == ncclSuccess);
  REQUIRE(kernels_run(1, 1));
  const auto calls = nccl().calls("ncclCommDestroy");
  auto destroy = in_thread([&] { return nccl().destroy(pair.own.comm); });
  REQUIRE(comes_true([&] { return nccl().calls("ncclCommDestroy") == calls + 1; }));
  CHECK(waits(destroy));
  CHECK(nccl().kernels_running(1) == 1);
  {
    const stand_in_driver gpu(0);
    CHECK(pair.peer.reduce_anything() == ncclInProgress);
  }
  CHECK(pair.peer.reaches(ncclSuccess)); // launches the kernel
  CHECK(returns(destroy));
  CHECK(destroy.get() == ncclSuccess);
  CHECK(nccl().destroy(pair.peer.comm) == ncclSuccess);
}

TEST_CASE("a communicator that is used after its end is a misuse, which is counted") {
  for (const bool aborts : {true, false}) {
    nccl_rank own(0, 1);
    REQUIRE(own.init(new_unique_id()) == ncclSuccess);
    const auto before = nccl().misuses();
    CHECK((aborts ? nccl().abort : nccl().destroy)(own.comm) == ncclSuccess);
    CHECK(nccl().destroy(own.comm) == ncclInvalidArgument);
    CHECK_THAT(nccl().last_error(nullptr),
               Contains(aborts ? "has ended with ncclCommAbort" : "has ended with ncclCommDestroy"));
    CHECK(nccl().abort(own.comm) == ncclInvalidArgument);
    CHECK(own.reduce_anything() == ncclInvalidArgument);
    CHECK(nccl().misuses() == before + 3);
  }
}

TEST_CASE("operations that do not match never end, and are a misuse") {
  const auto before = nccl().misuses();
  lonely_pair pair;
  REQUIRE(pair.own.reduce_anything() == ncclSuccess);
  {
    const stand_in_driver gpu(0);
    auto* memory = pair.peer.upload(std::vector<float>{1});
    CHECK(nccl().all_reduce(memory, memory, 1, ncclFloat32, ncclSum, pair.peer.comm, pair.peer.stream) ==
          ncclInProgress);
  }
  CHECK(pair.peer.reaches(ncclSuccess));
  CHECK(comes_true([&] { return nccl().misuses() == before + 1; }));
  CHECK_THAT(nccl().last_error(nullptr),
             Contains("rank 0: all-reduce of 1 elements of type 2") && Contains("rank 1: all-reduce"));
  CHECK(nccl().kernels_running(0) + nccl().kernels_running(1) == 2);
  auto abort_peer = in_thread([&] { return nccl().abort(pair.peer.comm); });
  CHECK(nccl().abort(pair.own.comm) == ncclSuccess);
  CHECK(returns(abort_peer));
}

TEST_CASE("two sends that are not in a group wait for each other's receives") {
  lonely_pair pair;
  const auto send = [](nccl_rank& from, int to) {
    const stand_in_driver gpu(1 - from.rank);
    auto* memory = from.upload(std::vector<float>{1});
    return nccl().send(memory, 1, ncclFloat32, to, from.comm, from.stream);
  };
  REQUIRE(send(pair.own, 1) == ncclSuccess);
  REQUIRE(send(pair.peer, 0) == ncclInProgress);
  CHECK(pair.peer.reaches(ncclSuccess));
  REQUIRE(kernels_run(0, 1));
  REQUIRE(kernels_run(1, 1));
  CHECK(nccl().abort(pair.own.comm) == ncclSuccess);
  CHECK(nccl().abort(pair.peer.comm) == ncclSuccess);
}

TEST_CASE(
    "with one place for a kernel, launches in different orders on two devices wait until one is aborted") {
  const variable resident("FARANDOLE_FAKE_NCCL_RESIDENT", "1");
  const auto id_a = new_unique_id(), id_b = new_unique_id();
  std::promise<void> may_abort;
  const auto aborts = may_abort.get_future().share();
  const auto body = [&](int device) -> std::string {
    two_communicators own(device);
    auto text = own.init(id_a, id_b);
    auto& first = device == 0 ? own.a : own.b;
    auto& second = device == 0 ? own.b : own.a;
    text += differs(first.reduce_anything(), "first launch");
    if (!kernels_run(device, 1))
      text += "the first kernel does not run; ";
    text += differs(second.reduce_anything(), "second launch");
    aborts.wait();
    text += differs(nccl().abort(own.a.comm), "abort of A");
    own.b.synchronize(); // now it gets its place on both devices
    return text + differs(nccl().destroy(own.b.comm), "destroy of B");
  };
  auto first = std::async(std::launch::async, body, 0);
  auto second = std::async(std::launch::async, body, 1);
  for (const int device : {0, 1})
    CHECK(comes_true([&] { return nccl().kernels_unfinished(device) == 2; }));
  // Both devices have all of their kernels, and none can end: each place is held by a kernel whose peer has none.
  CHECK(nccl().wait_for_kernels(0, 0, glance_ms) == 0);
  CHECK(nccl().wait_for_kernels(1, 0, glance_ms) == 0);
  for (const int device : {0, 1}) {
    CHECK(nccl().kernels_running(device) == 1);
    CHECK(nccl().kernels_unfinished(device) == 2);
  }
  may_abort.set_value();
  CHECK(first.get() == "");
  CHECK(second.get() == "");
  CHECK(nccl().kernels_unfinished(0) + nccl().kernels_unfinished(1) == 0);
}

TEST_CASE("with one place for a kernel, launches in the same order on two devices end") {
  const variable resident("FARANDOLE_FAKE_NCCL_RESIDENT", "1");
  const auto id_a = new_unique_id(), id_b = new_unique_id();
  const auto body = [&](int device) -> std::string {
    two_communicators own(device);
    auto text = own.init(id_a, id_b);
    own.b.stream = own.a.stream; // the stream keeps the order
    for (int i = 0; i < 20; ++i) {
      text += differs(own.a.reduce_anything(), "launch of A");
      text += differs(own.b.reduce_anything(), "launch of B");
    }
    own.a.synchronize();
    text += differs(nccl().destroy(own.a.comm), "destroy of A");
    return text + differs(nccl().destroy(own.b.comm), "destroy of B");
  };
  auto first = std::async(std::launch::async, body, 0);
  auto second = std::async(std::launch::async, body, 1);
  CHECK(first.get() == "");
  CHECK(second.get() == "");
}

TEST_CASE("a non-blocking initialisation whose peers never come is aborted") {
  nccl_rank own(0, 2);
  REQUIRE(own.init_non_blocking(new_unique_id()) == ncclInProgress);
  CHECK(own.state() == ncclInProgress);
  CHECK(nccl().abort(own.comm) == ncclSuccess);
  const variable hangs("FARANDOLE_FAKE_NCCL_HANG", "init");
  REQUIRE(own.init_non_blocking(new_unique_id()) == ncclInProgress);
  CHECK(own.state() == ncclInProgress);
  CHECK(nccl().abort(own.comm) == ncclSuccess);
}
