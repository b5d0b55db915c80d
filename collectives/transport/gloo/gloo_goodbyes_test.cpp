#include "collectives/transport/gloo/gloo_goodbyes.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <span>

using namespace farandole;

namespace {

class posted_receive final : public gloo_message {
public:
  explicit posted_receive(const bool& closed) : closed_(closed) {}
  std::string wait(std::chrono::milliseconds) override { return {}; }
  void give_up() override {}
  bool broken() override { return closed_; }

private:
  const bool& closed_;
};

/// The mesh of rank 0 of three members. The test writes arriving messages into the posted receives.
struct mesh_of_three final : gloo_mesh {
  std::string address(int) const override { return {}; }
  std::string connect(int, const std::string&) override { return {}; }
  gloo_message* send(int, std::uint64_t, const std::byte*, std::size_t, std::string&) override {
    return nullptr;
  }
  gloo_message* receive(int peer, std::uint64_t, std::byte* memory, std::size_t bytes,
                        std::string&) override {
    posted[peer] = {memory, bytes};
    return new posted_receive(closed[peer]);
  }
  void close() override {}

  std::span<std::byte> posted[3];
  bool closed[3] = {};
};

struct listener {
  listener() {
    departing.meet(0, 3);
    goodbyes.listen(mesh, 0, 3, departing);
  }
  void arrive(int source, std::span<const std::byte> bytes) {
    std::copy(bytes.begin(), bytes.end(), mesh.posted[source].begin());
  }
  void report() {
    goodbyes.report(departing);
    goodbyes.report_broken(departing);
  }

  mesh_of_three mesh;
  departure_protocol departing{"gloo", {}};
  gloo_goodbyes goodbyes;
};

} // namespace

TEST_CASE("gloo: a goodbye takes effect once all of its bytes have arrived") {
  listener self;
  const auto message = goodbye{2, {}}.encode();
  self.arrive(1, std::span{message}.first(message.size() - 1));
  CHECK_FALSE(self.goodbyes.failure_announced());
  self.report();
  CHECK_FALSE(self.departing.failure());
  self.arrive(1, message);
  CHECK(self.goodbyes.failure_announced());
  self.report();
  CHECK(self.departing.failure().text == "rank 2 is lost to the gloo path: rank 1 has lost it");
}

TEST_CASE("gloo: a goodbye that names a culprit overrides an orderly goodbye") {
  listener self;
  self.departing.lose_message(1, "the wait was ended");
  self.arrive(1, goodbye{}.encode());
  CHECK_FALSE(self.goodbyes.failure_announced());
  self.arrive(2, goodbye{2, {}}.encode());
  self.report();
  CHECK(self.departing.failure().text == "rank 2 is lost to the gloo path: it gave the operation up");
}

TEST_CASE("gloo: an invalid goodbye ends the wait and makes its sender the culprit") {
  listener self;
  self.arrive(2, goodbye{7, {}}.encode());
  CHECK(self.goodbyes.failure_announced());
  self.report();
  CHECK(self.departing.culprit() == 2);
  CHECK_FALSE(self.departing.guessed());
}

TEST_CASE("gloo: a closed connection counts as a loss only if no goodbye has arrived") {
  listener self;
  self.arrive(1, goodbye{}.encode());
  self.mesh.closed[1] = true;
  self.report();
  CHECK_FALSE(self.departing.failure());
  CHECK_FALSE(self.departing.all_departed());
  self.mesh.closed[2] = true;
  self.report();
  CHECK(self.departing.guessed());
  CHECK(self.departing.culprit() == 2);
  CHECK(self.departing.all_departed());
}
