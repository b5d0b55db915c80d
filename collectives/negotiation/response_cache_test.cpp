#include "collectives/negotiation/response_cache.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

namespace {

cached_tensor named(std::string name) {
  cached_tensor tensor;
  tensor.name = std::move(name);
  return tensor;
}

std::vector<std::uint32_t> ids(const std::vector<cached_tensor>& tensors) {
  std::vector<std::uint32_t> result;
  for (const auto& tensor : tensors)
    result.push_back(tensor.id);
  return result;
}

} // namespace

TEST_CASE("ids count from 1 and are never reused") {
  response_cache cache(2);
  std::vector<cached_tensor> evicted;
  for (std::uint32_t id = 1; id <= 5000; ++id) {
    cache.mark();
    const auto* kept = cache.insert(named(std::to_string(id)), evicted);
    REQUIRE(kept);
    REQUIRE(kept->id == id);
    REQUIRE(kept->as_ready.id == id);
  }
  CHECK(cache.size() == 2);
  CHECK(evicted.size() == 4998);
  CHECK(cache.find(4999u)->name == "4999");
  for (std::uint32_t id : {0u, 1u, 1024u, 4998u, 5001u, 4000000000u})
    CHECK(cache.find(id) == nullptr);
}

TEST_CASE("the least recently used id is evicted") {
  response_cache cache(3);
  std::vector<cached_tensor> evicted;
  for (const auto* name : {"a", "b", "c"})
    cache.insert(named(name), evicted);
  cache.touch(*cache.find(1));
  cache.mark();
  cache.insert(named("d"), evicted);
  CHECK(ids(evicted) == std::vector<std::uint32_t>{2});
  cache.mark();
  cache.forget(3);
  cache.insert(named("e"), evicted);
  CHECK(evicted.size() == 1);
  cache.mark();
  cache.insert(named("f"), evicted);
  CHECK(ids(evicted) == std::vector<std::uint32_t>{2, 1});
}

TEST_CASE("an id that was touched in the same step is not evicted") {
  response_cache cache(2);
  std::vector<cached_tensor> evicted;
  cache.insert(named("a"), evicted);
  cache.insert(named("b"), evicted);
  CHECK(cache.insert(named("c"), evicted) == nullptr);
  cache.mark();
  cache.touch(*cache.find(1));
  CHECK(cache.insert(named("c"), evicted)->id == 3);
  CHECK(ids(evicted) == std::vector<std::uint32_t>{2});
  CHECK(cache.insert(named("d"), evicted) == nullptr);
}

TEST_CASE("a pinned id is not evicted and counts towards the capacity") {
  response_cache cache(2);
  std::vector<cached_tensor> evicted;
  cache.pin(*cache.insert(named("a"), evicted));
  cache.insert(named("b"), evicted);
  cache.mark();
  cache.touch(*cache.find(1));
  cache.mark();
  cache.insert(named("c"), evicted);
  CHECK(ids(evicted) == std::vector<std::uint32_t>{2});
  cache.pin(*cache.find(3));
  cache.mark();
  CHECK(cache.insert(named("d"), evicted) == nullptr);
  cache.unpin(*cache.find(3));
  cache.mark();
  CHECK(cache.insert(named("d"), evicted)->id == 4);
  CHECK(evicted.back().id == 3);
  CHECK(cache.forget(1).name == "a");
  CHECK(cache.insert(named("e"), evicted)->id == 5);
}

TEST_CASE("an id kept for the fast path is not evicted and does not count towards the capacity") {
  response_cache cache(2);
  std::vector<cached_tensor> evicted;
  for (const auto* name : {"a", "b"})
    cache.insert(named(name), evicted);
  cache.keep_for_fast_path(*cache.find(1));
  cache.keep_for_fast_path(*cache.find(1));
  cache.unpin(*cache.find(1)); // unpinned after it was scheduled; it is still on the fast path
  for (const auto* name : {"c", "d", "e"}) {
    cache.mark();
    REQUIRE(cache.insert(named(name), evicted));
  }
  CHECK(ids(evicted) == std::vector<std::uint32_t>{2, 3});
  CHECK(cache.find(1)->name == "a");
  CHECK(cache.size() == 3);
  cache.forget(1);
  cache.mark();
  cache.insert(named("f"), evicted);
  CHECK(ids(evicted) == std::vector<std::uint32_t>{2, 3, 4});
}

TEST_CASE("a cache of capacity 0 assigns no id") {
  response_cache cache(0);
  std::vector<cached_tensor> evicted;
  CHECK(cache.insert(named("a"), evicted) == nullptr);
}

TEST_CASE("a request matches an id only with its signature and group, and with its rank's own rows") {
  cached_tensor tensor = named("g");
  tensor.signature.operation = operation::allgather;
  tensor.signature.shape = {2, 3};
  tensor.first_dims = {2, 5};
  tensor.group = 7;
  tensor.group_size = 2;
  request asked{"g", tensor.signature, 7, 2};
  CHECK(tensor.matches(asked, 0));
  CHECK(!tensor.matches(asked, 1));
  asked.signature.shape = {5, 3};
  CHECK(tensor.matches(asked, 1));
  asked.group = 0;
  CHECK(!tensor.matches(asked, 1));
  asked.group = 7;
  asked.signature.shape = {5, 4};
  CHECK(!tensor.matches(asked, 1));
  asked.signature.shape = {};
  CHECK(!tensor.matches(asked, 1));
}

TEST_CASE("a request matches an id only from the device from which the member requested it before") {
  cached_tensor tensor = named("a");
  request asked{"a", tensor.signature, 0, 0};
  CHECK(tensor.matches(asked, 1));
  tensor.devices = {0, 2};
  CHECK(tensor.matches(asked, 0));
  CHECK(!tensor.matches(asked, 1));
  asked.device = 2;
  CHECK(tensor.matches(asked, 1));
  CHECK(!tensor.matches(asked, 0));
  CHECK(tensor.request_of(1) == asked);
}

TEST_CASE("a place that is reused is neither pinned nor kept for the fast path") {
  response_cache cache(1);
  std::vector<cached_tensor> evicted;
  cache.keep_for_fast_path(*cache.insert(named("a"), evicted));
  cache.forget(1);
  cache.keep_for_fast_path(*cache.insert(named("b"), evicted));
  CHECK(cache.insert(named("c"), evicted));
  CHECK(evicted.empty());
}

TEST_CASE("the order of eviction follows the last use, not the number of uses") {
  response_cache cache(3);
  std::vector<cached_tensor> evicted;
  for (const auto* name : {"a", "b", "c"})
    cache.insert(named(name), evicted);
  for (const std::uint32_t id : {1, 1, 3})
    cache.touch(*cache.find(id));
  for (const auto* name : {"d", "e", "f"}) {
    cache.mark();
    cache.insert(named(name), evicted);
  }
  CHECK(ids(evicted) == std::vector<std::uint32_t>{2, 1, 3});
}
