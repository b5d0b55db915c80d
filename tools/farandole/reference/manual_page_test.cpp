#include "tools/farandole/reference/manual_page.hpp"

#include <catch2/catch.hpp>

#include "messages/settings/settings.hpp"

using namespace farandole;
using Catch::Contains;

TEST_CASE("the manual page lists commands, options and every variable", "[manual]") {
  const std::vector<command_description> commands = {
      {"run", "starts a job", {{{"--num-proc", "-np"}, "Number of processes.", "INT", 1, {}, "Options"}}},
      {"check", "shows settings", {{{"--num-proc", "-np"}, "", "INT", 1, {}, "Options"}}, {}, "run"},
  };
  const auto page = manual_page(commands, "1.2.3", "Examples:\n.dot 'quote' \\ back\n");
  CHECK_THAT(page, Contains(".TH FARANDOLE 1 \"\" \"Farandole 1.2.3\""));
  CHECK_THAT(page, Contains(".SS farandole run\nStarts a job.\n.PP\n\\fBOptions\\fR\n.TP\n"
                            "\\fB\\-\\-num\\-proc\\fR, \\fB\\-np\\fR \\fIINT\\fR\nNumber of processes.\n"));
  CHECK_THAT(page,
             Contains(".SS farandole check\nShows settings.\nTakes the options of \\fBfarandole run\\fR.\n"));
  for (const auto& row : setting_table())
    CHECK_THAT(page, Contains("\\fB" + std::string(row.environment) + "\\fR\n"));
  CHECK_THAT(page, Contains("Default: 1024. Values: 0 to "));
  CHECK_THAT(page, Contains(".nf\nExamples:\n\\&.dot 'quote' \\e back\n.fi\n"));
}
