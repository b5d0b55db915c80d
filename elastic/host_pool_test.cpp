#include "elastic/host_pool.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using namespace std::chrono_literals;
using list = std::vector<host_slots>;

namespace {

const host_pool::time_point start{};

} // namespace

TEST_CASE("known hosts keep their order, and new ones follow in the order of the listing") {
  host_pool book;
  CHECK(book.update({{"c", 2}, {"a", 1}}).added == list{{"c", 2}, {"a", 1}});
  book.update({{"z", 1}, {"a", 1}, {"b", 1}, {"c", 2}});
  CHECK(book.hosts() == list{{"c", 2}, {"a", 1}, {"z", 1}, {"b", 1}});
}

TEST_CASE("an update returns the added and the removed slots") {
  host_pool book;
  book.update({{"a", 2}, {"b", 2}, {"c", 2}});
  const auto change = book.update({{"a", 1}, {"c", 5}, {"d", 1}});
  CHECK(change.added == list{{"c", 3}, {"d", 1}});
  CHECK(change.removed == list{{"a", 1}, {"b", 2}});
  const auto same = book.update({{"d", 1}, {"c", 5}, {"a", 1}});
  CHECK(same.added.empty());
  CHECK(same.removed.empty());
}

TEST_CASE("a host that was removed and comes again is a new one") {
  host_pool book;
  book.update({{"a", 1}, {"b", 1}});
  book.update({{"b", 1}});
  CHECK(book.slots("a") == 0);
  CHECK(book.update({{"a", 1}, {"b", 1}}).added == list{{"a", 1}});
  CHECK(book.hosts() == list{{"b", 1}, {"a", 1}});
}

TEST_CASE("a host that failed keeps its slots but is not usable until its cooldown is over") {
  host_pool book({{10s, 60s}});
  book.update({{"a", 1}, {"b", 2}});
  CHECK(book.fail("a", start, 0));
  CHECK_FALSE(book.fail("a", start, 0));
  CHECK(book.slots("a") == 1);
  CHECK(book.usable(start) == list{{"b", 2}});
  CHECK(book.usable(start + 10s) == list{{"a", 1}, {"b", 2}});
}

TEST_CASE("a host stays blacklisted when it disappears from discovery for a time") {
  host_pool book;
  book.update({{"a", 1}, {"b", 1}});
  book.fail("a", start, 0);
  book.update({{"b", 1}});
  book.update({{"a", 1}, {"b", 1}});
  CHECK(book.usable(start) == list{{"b", 1}});
}
