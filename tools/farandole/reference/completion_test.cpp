#include "tools/farandole/reference/completion.hpp"

#include <catch2/catch.hpp>

using namespace farandole;
using Catch::Contains;

namespace {

const std::vector<command_description> commands = {
    {"run",
     "starts a job",
     {{{"--num-proc", "-np"}, "Number: of [processes].", "INT", 1, {}, "Options"},
      {{"--level"}, "It's a choice.", "TEXT", 1, {"low", "high"}, "Options"},
      {{"--range"}, "Two numbers.", "LOW HIGH", 2, {}, "Options"},
      {{"--output"}, "A folder.", "FOLDER", 1, {}, "Options"},
      {{"--config", "-c"}, "A file.", "FILE", 1, {}, "Options"},
      {{"--verbose"}, "A flag.", "", 0, {}, "Options"}},
     {},
     "",
     true},
    {"build-all", "builds", {{{"--force"}, "A flag.", "", 0, {}, "Options"}}},
    {"shells", "prints a script", {}, {"bash", "zsh"}},
};

} // namespace

TEST_CASE("values are completed to files, folders or the possible values", "[completion]") {
  const auto& options = commands.front().options;
  CHECK(kind_of_value(options[0]) == value_kind::unknown);
  CHECK(kind_of_value(options[1]) == value_kind::choice);
  CHECK(kind_of_value(options[2]) == value_kind::unknown);
  CHECK(kind_of_value(options[3]) == value_kind::folder);
  CHECK(kind_of_value(options[4]) == value_kind::file);
}

TEST_CASE("the script for bash knows commands, options, numbers of values and their kinds", "[completion]") {
  const auto script = bash_completion(commands);
  CHECK_THAT(script, Contains("_farandole_commands='run build-all shells'\n"));
  CHECK_THAT(script, Contains("'run --num-proc' | 'run -np') count=1 ;;\n"));
  CHECK_THAT(script, Contains("'run --range') count=2 ;;\n"));
  CHECK_THAT(script, Contains("'run --level') kind='low high' ;;\n"));
  CHECK_THAT(script, Contains("'run --output') kind=folder ;;\n"));
  CHECK_THAT(script, Contains("'run --config' | 'run -c') kind=file ;;\n"));
  CHECK_THAT(script, Contains("build-all) _farandole_offer '--force' ;;\n"));
  CHECK_THAT(script, Contains("run) _farandole_program \"$2\" ;;\n"));
  CHECK_THAT(script, Contains("shells) _farandole_offer 'bash zsh' ;;\n"));
  CHECK_THAT(script, !Contains("'run --verbose') "));
}

TEST_CASE("the script for zsh escapes brackets, colons and quotes", "[completion]") {
  const auto script = zsh_completion(commands);
  CHECK(script.starts_with("#compdef farandole horovodrun\n"));
  CHECK_THAT(script, Contains("'*--num-proc=[Number\\: of \\[processes\\].]:INT: '"));
  CHECK_THAT(script, Contains("'*-np[Number\\: of \\[processes\\].]:INT: '"));
  CHECK_THAT(script, Contains("'*--level=[It'\\''s a choice.]:TEXT:(low high)'"));
  CHECK_THAT(script, Contains("'*--range[Two numbers.]:LOW: :HIGH: '"));
  CHECK_THAT(script, Contains("'*--output=[A folder.]:FOLDER:_files -/'"));
  CHECK_THAT(script, Contains("'*--verbose[A flag.]'"));
  CHECK_THAT(script, Contains("'build-all:builds'"));
  CHECK_THAT(script, Contains("'*:argument:(bash zsh)'"));
}

TEST_CASE("the script for fish has a line for each option with all its names", "[completion]") {
  const auto script = fish_completion(commands);
  CHECK_THAT(script,
             Contains("complete -c farandole -n __farandole_at_command -f -a run -d 'starts a job'\n"));
  CHECK_THAT(script, Contains("set -g __farandole_in_run '__farandole_at_options run --num-proc -np --level "
                              "--range --range --output --config -c'\n"));
  CHECK_THAT(script,
             Contains("complete -c farandole -c horovodrun -n $__farandole_in_run -l num-proc -o np -x "
                      "-d 'Number: of [processes].'\n"));
  CHECK_THAT(script, Contains("-l level -x -a 'low high' -d 'It\\'s a choice.'\n"));
  CHECK_THAT(script, Contains("-l config -s c -r -F -d 'A file.'\n"));
  CHECK_THAT(script, Contains("complete -c farandole -n $__farandole_in_build_all -l force -d 'A flag.'\n"));
  CHECK_THAT(script, Contains("complete -c farandole -n $__farandole_in_shells -f -a zsh\n"));
}
