#include "collectives/paths/exchange/peer_losses.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

TEST_CASE("losses: the first culprit stays, and a goodbye knows better than a closed connection") {
  peer_losses losses{"tcp", {10, 11, 12, 13}};
  losses.blame(1, "it has closed the connection", true);
  CHECK(losses.guessed());
  losses.blame(2, "it has closed the connection", true);
  CHECK(losses.failure().text == "rank 11 is lost to the tcp path: it has closed the connection");
  CHECK_FALSE(losses.hear_goodbye(1, 3, 4));
  CHECK_FALSE(losses.guessed());
  CHECK(losses.failure().text == "rank 13 is lost to the tcp path: rank 11 has lost it");
  losses.hear_goodbye(2, 2, 4);
  CHECK(losses.culprit_or(0) == 3);
}

TEST_CASE("losses: a guess that nobody corrects names all whose connections are closed") {
  peer_losses losses{"ucx", {}};
  losses.blame(1, "Connection reset", true);
  losses.settle_guess({1, 2});
  CHECK(losses.failure().text == "rank 1, rank 2 are lost to the ucx path: Connection reset");
}

TEST_CASE("losses: who leaves in order is no loss, and a member that fails by itself blames itself") {
  peer_losses losses{"tcp", {}};
  CHECK(losses.hear_goodbye(1, -1, 3));
  CHECK(losses.hear_goodbye(1, 3, 3));
  CHECK_FALSE(losses.failure());
  losses.fail({error_kind::timed_out, "late"});
  losses.fail({error_kind::unknown, "later"});
  CHECK(losses.failure().text == "late");
  CHECK(losses.culprit_or(2) == 2);
}
