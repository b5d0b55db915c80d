#include "actors/launch/user_commands.hpp"

#include <catch2/catch.hpp>

using namespace farandole;

using commands_by_link = std::map<user_commands::link, user_commands::command>;

TEST_CASE("each command of a user has a number that no worker has, and belongs to one link", "[rsh]") {
  user_commands commands;
  const auto first = commands.begin(7, "b"), second = commands.begin(8, "b");
  CHECK(first == user_commands::first_number);
  CHECK(second == first + 1);
  CHECK(commands.of(7) == user_commands::command{"b", first});
  CHECK_FALSE(commands.of(9));
  CHECK(commands.program_of("b", second) == user_commands::link{8});
  CHECK_FALSE(commands.program_of("c", second)); // another host cannot answer for b
  CHECK_FALSE(commands.program_of("b", second + 1));
}

TEST_CASE("a command whose program is gone is forgotten, and its number is not used again", "[rsh]") {
  user_commands commands;
  const auto first = commands.begin(7, "b");
  CHECK(commands.end(7) == user_commands::command{"b", first});
  CHECK_FALSE(commands.end(7));
  CHECK_FALSE(commands.program_of("b", first));
  CHECK(commands.begin(7, "b") == first + 1);
}

TEST_CASE("a lost host ends its own commands, and the end of the job ends all", "[rsh]") {
  user_commands commands;
  const auto first = commands.begin(7, "b");
  commands.begin(8, "c");
  commands.begin(9, "b");
  CHECK(commands.lost("b") == commands_by_link{{7, {"b", first}}, {9, {"b", first + 2}}});
  CHECK(commands.lost("b").empty());
  CHECK(commands.of(8));
  CHECK(commands.end_all() == commands_by_link{{8, {"c", first + 1}}});
  CHECK_FALSE(commands.of(8));
}

TEST_CASE("a complete command is kept until its program is gone, whatever happens to its host", "[rsh]") {
  user_commands commands;
  const auto number = commands.begin(7, "b");
  commands.complete(7);
  commands.complete(8); // no command
  CHECK(commands.lost("b").empty());
  CHECK(commands.end_all().empty());
  CHECK(commands.of(7) == user_commands::command{"b", number, true});
  CHECK(commands.end(7));
}

TEST_CASE("a program may send requests about its own process only", "[rsh]") {
  const user_commands::command own{"b", user_commands::first_number};
  const auto number = own.number;
  CHECK(user_commands::allows(own, encode(start_request{number, {"true"}, {}, "", 1})));
  CHECK(user_commands::allows(own, encode(process_signal{number, 15})));
  CHECK(user_commands::allows(own, encode(process_input{number, standard_input_stream, "x", false})));
  CHECK(user_commands::allows(own, encode(output_consumed{number, 1, 5})));
  CHECK_FALSE(user_commands::allows(own, encode(process_signal{number + 1, 15})));
  CHECK_FALSE(user_commands::allows(own, encode(start_request{0, {"true"}, {}, "", 1})));
  CHECK_FALSE(user_commands::allows(own, encode(process_finished{number})));
  CHECK_FALSE(user_commands::allows(own, leave_host_message()));
}
