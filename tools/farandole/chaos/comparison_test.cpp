#include "tools/farandole/chaos/comparison.hpp"

#include <catch2/catch.hpp>

#include <vector>

using namespace farandole::chaos;

namespace {

std::optional<double> accuracy_of(std::string_view line) {
  achievement told;
  take_line(line, told);
  return told.accuracy;
}

achievement with(std::optional<std::string> weights, std::optional<double> accuracy) {
  return {std::move(weights), accuracy};
}

bool good(const achievement& undisturbed, std::vector<achievement> disturbed, bool must_compare = false) {
  return compare(undisturbed, disturbed, 0.01, must_compare).good;
}

} // namespace

TEST_CASE("an accuracy is read from any usual form of a script's line", "[chaos]") {
  CHECK(accuracy_of("[0]<stdout>:accuracy on the held-out images: 0.9722") == 0.9722);
  CHECK(accuracy_of("epoch 3: 4 workers, step 75, accuracy 0.95") == 0.95);
  CHECK(accuracy_of("Test Accuracy=97.5%") == 97.5);
  CHECK(accuracy_of("accuracy before: 0.1, accuracy after: 0.9 in 5 s") == 0.9);
  CHECK(accuracy_of("accuracy=.93") == 0.93);
  CHECK(accuracy_of("accuracy: tensor(0.93)") == 0.93);
  CHECK_FALSE(accuracy_of("accuracy: soon"));
  CHECK_FALSE(accuracy_of("accuracy: no information"));
  CHECK_FALSE(accuracy_of("accurate to 0.5"));
}

TEST_CASE("the last weights and the last accuracy that a script prints count", "[chaos]") {
  achievement told;
  for (const char* line : {"[0]<stdout>:WEIGHTS 1.0", "accuracy 0.5", "[1]<stdout>:WEIGHTS 2.0", "done"})
    take_line(line, told);
  CHECK(told.weights == "2.0");
  CHECK(told.accuracy == 0.5);
}

TEST_CASE("an accuracy that is no number replaces the one before, and is not reached", "[chaos]") {
  for (const char* line :
       {"accuracy: nan", "val_accuracy: NaN - loss: 0.3", "accuracy: tensor(nan)", "accuracy inf"}) {
    achievement told{{}, 0.96};
    take_line(line, told);
    CHECK_FALSE(good(with({}, 0.96), {with({}, 0.97), told, with({}, 0.98)}));
    CHECK_FALSE(good(told, {with({}, 0.97)}));
  }
}

TEST_CASE("weights must be printed in every run, and be equal", "[chaos]") {
  CHECK(good(with("1.0", {}), {with("1.0", {}), with("1.0", {})}));
  CHECK_FALSE(good(with("1.0", {}), {with("1.0", {}), with("1.1", {})}));
  CHECK_FALSE(good(with("1.0", {}), {with({}, {})}));
  CHECK_FALSE(good(with({}, {}), {with("1.0", {})}));
  const auto judged = compare(with("1.0", {}), std::vector{with("1.0", {}), with("1.1", {})}, 0, false);
  CHECK(judged.text == "weights: not equal. Undisturbed: 1.0; disturbed, run 2: 1.1\n");
}

TEST_CASE("an accuracy may be lower by the tolerance, and any amount higher", "[chaos]") {
  CHECK(good(with({}, 0.96), {with({}, 0.955), with({}, 0.99)}));
  CHECK_FALSE(good(with({}, 0.96), {with({}, 0.97), with({}, 0.94)}));
  CHECK_FALSE(good(with({}, 0.96), {with({}, {})}));
  CHECK_FALSE(good(with("1.0", 0.96), {with("1.0", 0.5)}));
  CHECK_FALSE(good(with("1.0", 0.96), {with("2.0", 0.96)}));
}

TEST_CASE("runs without values to compare fail only if the comparison was requested", "[chaos]") {
  CHECK(good(with({}, {}), {with({}, {})}));
  CHECK_FALSE(good(with({}, {}), {with({}, {})}, true));
  CHECK_FALSE(good(with({}, {}), {}));
}
