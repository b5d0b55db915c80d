#include "actors/gpu/device_ledger.hpp"

#include <catch2/catch.hpp>

#include <thread>

using namespace farandole;

TEST_CASE("a wait for devices ends when all launched bundles are released") {
  device_ledger ledger;
  CHECK_FALSE(ledger.wait());
  ledger.launched();
  ledger.launched();
  int asked = 0;
  CHECK(ledger.wait([&] { return ++asked == 2; }).kind == error_kind::aborted);
  ledger.released();
  std::thread device([&] { ledger.released(); });
  CHECK_FALSE(ledger.wait());
  device.join();
}

TEST_CASE("the first reason for which bundles were given up is the answer from then on") {
  device_ledger ledger;
  for (int i = 0; i < 3; ++i)
    ledger.launched();
  ledger.given_up(0, {error_kind::unknown, "of nothing"});
  ledger.given_up(2, {error_kind::timed_out, "the GPU has hung"});
  std::thread device([&] { ledger.released(); });
  CHECK(ledger.wait().text == "the GPU has hung");
  device.join();
  ledger.launched();
  ledger.given_up(1, {error_kind::unknown, "another reason"});
  CHECK(ledger.wait().text == "the GPU has hung");
}
