#include <catch2/catch.hpp>

#include "actors/submission/set_epochs.hpp"

using namespace farandole;

namespace {

error reason(const std::string& text) {
  return {error_kind::disconnected, text};
}

} // namespace

TEST_CASE("a set that never failed refuses no submission") {
  set_epochs epochs;
  CHECK(!epochs.refuse(0));
  epochs.reported(0); // an operation failed without a restart of the set
  CHECK(epochs.seen() == 0);
  CHECK(!epochs.refuse(0));
}

TEST_CASE("after a restart with nothing pending, only the next submission is refused, with the reason") {
  set_epochs epochs;
  epochs.restarted(reason("it fell"));
  CHECK(epochs.seen() == 0);
  CHECK(epochs.refuse(1).text == "it fell");
  CHECK(epochs.seen() == 1);
  CHECK(!epochs.refuse(1));
}

TEST_CASE("a caller that waited for a failed operation counts as told of the restart") {
  set_epochs epochs;
  epochs.restarted(reason("it fell"));
  epochs.reported(0);
  epochs.reported(0); // by another operation of that epoch
  CHECK(epochs.seen() == 1);
  CHECK(!epochs.refuse(1));
}

TEST_CASE("a submission between the failure and the caller's wait is refused with the reason too") {
  set_epochs epochs;
  epochs.restarted(reason("it fell"));
  CHECK(epochs.refuse(0).text == "it fell");
  epochs.reported(0);
  CHECK(epochs.seen() == 1);
  CHECK(!epochs.refuse(1));
}

TEST_CASE("each restart is reported separately, even if late") {
  set_epochs epochs;
  epochs.restarted(reason("first"));
  epochs.restarted(reason("second"));
  CHECK(epochs.refuse(2).text == "first");
  CHECK(epochs.refuse(2).text == "second");
  CHECK(!epochs.refuse(2));

  epochs.restarted(reason("third"));
  epochs.restarted(reason("fourth"));
  epochs.reported(2); // an operation of the epoch that the third restart ended
  CHECK(epochs.seen() == 3);
  CHECK(epochs.refuse(4).text == "fourth");
  CHECK(!epochs.refuse(4));
}

TEST_CASE("a caller that was told of an epoch has seen the epochs before it") {
  set_epochs epochs;
  epochs.restarted(reason("first"));
  epochs.restarted(reason("second"));
  epochs.reported(1);
  CHECK(epochs.seen() == 2);
  CHECK(!epochs.refuse(2));
}

TEST_CASE("the submission queue of an ended epoch refuses submissions, even if the caller was told") {
  set_epochs epochs;
  epochs.restarted(reason("it fell"));
  epochs.reported(0);
  CHECK(epochs.refuse(0).text == "it fell");
  CHECK(epochs.seen() == 1);
  epochs.over(reason("the job is over"));
  CHECK(epochs.refuse(0).text == "the job is over");
}
