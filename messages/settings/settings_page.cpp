#include "messages/settings/settings_page.hpp"

#include <array>
#include <string_view>

#include "messages/settings/settings.hpp"

namespace farandole {

namespace {

constexpr std::string_view page_header =
    R"(# Settings

Made by `farandole settings --markdown` from the table in `messages/settings/rows/`; do not edit.

A flag of `farandole run` beats the config file (`--config-file`, YAML), the file beats the environment, and the
environment beats the default. `farandole check` shows every value and where it came from. Settings marked *job* are
taken from the launcher by all members of a job.

A value that is out of range is refused at start. An environment variable that does not parse counts as unset, with a
warning. Switches take numbers (on when above 0) and the words true, yes, on, false, no and off. Named values are taken
in any case.

*Needs* names a part without which the setting has no effect: it is accepted all the same. A setting marked *no effect in
this build* is read by nothing yet. It is accepted too, and one warning at the start of a job names all of these that were
given.

A variable called `FARANDOLE_*` or `HOROVOD_*` that is not known is named in a warning, too, with the nearest known name.

)";

struct section {
  setting first;
  std::string_view title;
};

constexpr std::array sections = {
    section{setting::rank, "How members find each other"},
    section{setting::fusion_threshold, "Settings of the whole job"},
    section{setting::start_timeout, "Deadlines"},
    section{setting::stall_check_disable, "Watching"},
    section{setting::controller, "How a job is launched and which libraries it may use"},
    section{setting::autotune_log, "The tuner"},
    section{setting::spark_start_timeout, "Spark"},
};

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + std::string(text) + "`";
}

std::string flags_of(const setting_row& row) {
  std::string cell = code(row.flag);
  if (!row.flag_off.empty())
    cell += ", " + code(row.flag_off);
  if (!row.yaml_key.empty())
    cell += (cell.empty() ? "" : "<br>") + code(row.yaml_key);
  return cell;
}

std::string kind_of(const setting_row& row) {
  std::string cell;
  switch (row.type) {
  case setting_type::flag:
    return "switch";
  case setting_type::text:
    if (row.choices.empty())
      return "text";
    for (const char c : row.choices)
      cell += c == '|' ? std::string(", ") : std::string(1, c);
    return cell;
  default:
    cell = shown_number(row.minimum) + " to " + shown_number(row.limit);
    return row.unit.empty() ? cell : cell + " " + std::string(row.unit);
  }
}

std::string line_of(const setting_row& row, const settings& defaults) {
  std::string doc(row.doc);
  if (row.job_wide)
    doc += " *job*";
  if (!row.needs.empty())
    doc += " *Needs: " + std::string(row.needs) + ".*";
  if (!row.has_effect)
    doc += " *No effect in this build.*";
  return "| " + std::string(row.name) + " | " + code(row.environment) + " | " + flags_of(row) + " | " +
         defaults.shown(row.id) + " | " + kind_of(row) + " | " + doc + " |\n";
}

} // namespace

std::string settings_page() {
  std::string page(page_header);
  page.pop_back(); // each section brings its own empty line
  const auto defaults = settings::built_in();
  for (const auto& row : setting_table()) {
    for (const auto& section : sections)
      if (section.first == row.id)
        page += "\n## " + std::string(section.title) +
                "\n\n| setting | environment | flag, YAML key | default | values | description |\n"
                "| --- | --- | --- | --- | --- | --- |\n";
    page += line_of(row, defaults);
  }
  return page;
}

} // namespace farandole
