#include "collectives/negotiation/departure_report.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("the error names a rank that raised with its exception, and lists the pending operations") {
  const auto reason = departure_error({"rank 1 on alpha",
                                       {departure_kind::uncaught_exception, "KeyError: 'labels'", 4},
                                       false,
                                       {"weights", "bias"},
                                       6});
  CHECK(reason.text == "rank 1 on alpha ended with an uncaught exception (KeyError: 'labels') after 4 "
                       "operations (this rank: 6 "
                       "operations); pending here: bias, weights. Its output has the traceback.");
  CHECK(reason.consequence);
}

TEST_CASE("the error recommends join() if the rank that left had submitted fewer operations") {
  for (const auto kind : {departure_kind::script_ended, departure_kind::shutdown_called}) {
    const auto reason = departure_error({"rank 1 on alpha", {kind, "", 1}, false, {"weights"}, 2});
    CHECK_THAT(reason.text, Catch::Contains("after 1 operation (this rank: 2 operations)") &&
                                Catch::Contains("different numbers of batches, call join()"));
    const auto other = departure_error({"rank 1 on alpha", {kind, "", 2}, false, {"weights"}, 2});
    CHECK_THAT(other.text, !Catch::Contains("join()"));
  }
}

TEST_CASE("a rank that exited with a code is reported with the code, as a lost worker") {
  const auto reason =
      departure_error({"rank 1 on alpha", {departure_kind::exited, "no data", 1, 3}, false, {"weights"}, 2});
  CHECK(reason.kind == error_kind::disconnected);
  CHECK(reason.consequence);
  CHECK(reason.text ==
        "rank 1 on alpha exited with code 3 (no data) after 1 operation (this rank: 2 operations); "
        "pending here: weights. Its output may say why.");
}

TEST_CASE("the error names the first pending operations and counts the others") {
  departure_report report{"rank 1 on alpha", {departure_kind::script_ended, "", 1}, false, {}, 9};
  for (char letter = 'h'; letter >= 'a'; --letter)
    report.pending.emplace_back(1, letter);
  CHECK_THAT(departure_error(report).text, Catch::Contains("pending here: a, b, c, d, e and 3 more. "));
}

TEST_CASE("a rank that left itself is told so, and not that another rank left") {
  const auto reason =
      departure_error({"rank 1 on alpha", {departure_kind::shutdown_called, "", 2}, true, {"weights"}, 2});
  CHECK_THAT(reason.text, Catch::Contains("on this rank; pending here: weights. Wait for all operations"));
  CHECK_FALSE(reason.consequence);
  CHECK_THAT(departure_error({"", {}, true, {}, 2}).text, Catch::Contains("call init() again"));
}
