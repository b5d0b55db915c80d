#include "messages/settings/settings_page.hpp"

#include <array>
#include <string_view>

#include "messages/settings/settings.hpp"

namespace farandole {

namespace {

constexpr std::string_view page_header =
    R"(# Settings

Made by `farandole settings --markdown` from the table in `messages/settings/rows/`; do not edit.

A flag of `farandole run` takes precedence over the config file (`--config-file`, YAML), the file over the environment,
and the environment over the default. `farandole check` shows every value with its source. All members of a job take the
settings marked *job* from the launcher.

A value that is out of range is an error at the start. An environment variable that cannot be parsed is ignored, with a
warning. Switches take numbers (on if above 0) and the words true, yes, on, false, no and off. Named values may be written
in upper or lower case.

*Needs* names a component without which the setting has no effect; the setting is accepted all the same. A setting marked
*no effect in this build* is accepted too, and one warning at the start of a job lists all of these that were given.

An unknown variable `FARANDOLE_*` or `HOROVOD_*` causes a warning that names the most similar known one.

)";

struct section {
  setting first;
  std::string_view title;
};

constexpr std::array sections = {
    section{setting::rank, "Finding the other members"},
    section{setting::fusion_threshold, "Settings of the whole job"},
    section{setting::start_timeout, "Deadlines"},
    section{setting::stall_check_disable, "Monitoring"},
    section{setting::controller, "Launching and optional libraries"},
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

std::string line_of(const setting_row& row, const settings& defaults) {
  std::string doc(row.doc);
  if (row.job_wide)
    doc += " *job*";
  if (!row.needs.empty())
    doc += " *Needs: " + std::string(row.needs) + ".*";
  if (!row.has_effect)
    doc += " *No effect in this build.*";
  return "| " + std::string(row.name) + " | " + code(row.environment) + " | " + flags_of(row) + " | " +
         defaults.shown(row.id) + " | " + values_of(row) + " | " + doc + " |\n";
}

} // namespace

std::string values_of(const setting_row& row) {
  std::string cell;
  switch (row.type) {
  case setting_type::flag:
    return "switch";
  case setting_type::text:
    if (row.choices.empty())
      return row.form.empty() ? "text" : std::string(row.form);
    for (const char c : row.choices)
      cell += c == '|' ? std::string(", ") : std::string(1, c);
    return cell;
  default:
    cell = shown_number(row.minimum) + " to " + shown_number(row.limit);
    return row.unit.empty() ? cell : cell + " " + std::string(row.unit);
  }
}

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
