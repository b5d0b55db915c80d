#include <catch2/catch.hpp>

#include "actors/submission/set_epochs.hpp"

using namespace farandole;

namespace {

error why(const std::string& text) {
  return {error_kind::disconnected, text};
}

} // namespace

TEST_CASE("a set that never failed refuses nothing") {
  set_epochs epochs;
  CHECK(!epochs.refuse(0));
  epochs.told(0); // an operation failed by itself
  CHECK(epochs.seen() == 0);
  CHECK(!epochs.refuse(0));
}

TEST_CASE("where nothing was pending, the next submission is told, and told once") {
  set_epochs epochs;
  epochs.restarted(why("it fell"));
  CHECK(epochs.seen() == 0);
  CHECK(epochs.refuse(1).text == "it fell");
  CHECK(epochs.seen() == 1);
  CHECK(!epochs.refuse(1));
}

TEST_CASE("who has waited for an operation that failed has been told") {
  set_epochs epochs;
  epochs.restarted(why("it fell"));
  epochs.told(0);
  epochs.told(0); // by another operation of that epoch
  CHECK(epochs.seen() == 1);
  CHECK(!epochs.refuse(1));
}

TEST_CASE("a submission between the failure and the look at it is told as well") {
  set_epochs epochs;
  epochs.restarted(why("it fell"));
  CHECK(epochs.refuse(0).text == "it fell");
  epochs.told(0);
  CHECK(epochs.seen() == 1);
  CHECK(!epochs.refuse(1));
}

TEST_CASE("each restart is told for itself, however late") {
  set_epochs epochs;
  epochs.restarted(why("first"));
  epochs.restarted(why("second"));
  CHECK(epochs.refuse(2).text == "first");
  CHECK(epochs.refuse(2).text == "second");
  CHECK(!epochs.refuse(2));

  epochs.restarted(why("third"));
  epochs.restarted(why("fourth"));
  epochs.told(2); // an operation of the epoch that the third restart ended
  CHECK(epochs.seen() == 3);
  CHECK(epochs.refuse(4).text == "fourth");
  CHECK(!epochs.refuse(4));
}

TEST_CASE("who was told late of an epoch has seen those before it") {
  set_epochs epochs;
  epochs.restarted(why("first"));
  epochs.restarted(why("second"));
  epochs.told(1);
  CHECK(epochs.seen() == 2);
  CHECK(!epochs.refuse(2));
}

TEST_CASE("an old door takes nothing, even from who knows") {
  set_epochs epochs;
  epochs.restarted(why("it fell"));
  epochs.told(0);
  CHECK(epochs.refuse(0).text == "it fell");
  CHECK(epochs.seen() == 1);
  epochs.over(why("the job is over"));
  CHECK(epochs.refuse(0).text == "the job is over");
}
