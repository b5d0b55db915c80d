#include "messages/settings/settings.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "messages/settings/secret_variable.hpp"
#include "messages/settings/setting_reading.hpp"

namespace farandole {

std::string shown_number(double value) {
  char buffer[64];
  const auto end = std::abs(value) < 1e18 && value == std::floor(value)
                       ? std::to_chars(buffer, buffer + sizeof buffer, static_cast<std::int64_t>(value)).ptr
                       : std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string_view to_string(setting_source source) {
  switch (source) {
  case setting_source::built_in:
    return "default";
  case setting_source::environment:
    return "environment";
  case setting_source::file:
    return "config file";
  case setting_source::flag:
    return "command line";
  case setting_source::rendezvous:
    return "rendezvous";
  }
  assert(false);
  return "";
}

environment_lookup process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    if (name == secret_variable_name)
      return secret_variable();
    const char* value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

settings settings::built_in() {
  settings result;
  for (const auto& row : setting_table()) {
    auto value = read_setting(row, row.built_in, 1);
    assert(value.kind == reading_kind::good);
    result.values_.push_back(std::move(value.content));
    result.sources_.push_back(setting_source::built_in);
  }
  return result;
}

expected<settings> settings::load(const setting_sources& sources) {
  settings result = built_in();
  // In ascending order of precedence: each source replaces the values of the earlier ones.
  if (auto problem = result.load_environment(sources.environment))
    return problem;
  if (auto problem = result.load_file(sources.file))
    return problem;
  if (auto problem = result.load_flags(sources.flags))
    return problem;
  return result;
}

error settings::load_environment(const environment_lookup& lookup) {
  if (!lookup)
    return {};
  for (const auto& row : setting_table()) {
    const auto text = lookup(row.environment);
    if (!text)
      continue;
    auto value = read_setting(row, *text, 1);
    if (value.kind == reading_kind::garbage) {
      warnings_.push_back(complaint(row, row.environment, *text, 1, value.kind) + "; using the default, " +
                          shown(row.id));
      continue;
    }
    if (value.kind == reading_kind::outside)
      return {error_kind::invalid_argument, complaint(row, row.environment, *text, 1, value.kind)};
    values_[static_cast<std::size_t>(row.id)] = std::move(value.content);
    sources_[static_cast<std::size_t>(row.id)] = setting_source::environment;
  }
  return {};
}

error settings::load_file(const std::map<std::string, std::string>& file) {
  const auto table = setting_table();
  for (const auto& [key, text] : file) {
    const auto row = std::find_if(table.begin(), table.end(), [&key = key](const setting_row& candidate) {
      return !candidate.yaml_key.empty() && candidate.yaml_key == key;
    });
    if (row == table.end())
      return {error_kind::invalid_argument, "there is no setting with the key '" + key + "'"};
    if (auto problem = assign_typed(*row, setting_source::file, key, text, row->flag_factor))
      return problem;
    if (row->yaml_negated) {
      auto& value = std::get<bool>(values_[static_cast<std::size_t>(row->id)]);
      value = !value;
    }
  }
  return {};
}

error settings::load_flags(const std::map<std::string, std::string>& flags) {
  const auto table = setting_table();
  for (const auto& [name, text] : flags) {
    const auto row = std::find_if(table.begin(), table.end(), [&name = name](const setting_row& candidate) {
      return !name.empty() && (candidate.flag == name || candidate.flag_off == name);
    });
    if (row == table.end())
      return {error_kind::invalid_argument, "there is no setting with the flag '" + name + "'"};
    if (auto problem = assign_typed(*row, setting_source::flag, name, text, row->flag_factor))
      return problem;
    if (row->flag_off == name) {
      auto& value = std::get<bool>(values_[static_cast<std::size_t>(row->id)]);
      value = !value;
    }
  }
  return {};
}

error settings::assign(setting id, std::string_view text, setting_source source) {
  const auto& row = row_of(id);
  return assign_typed(row, source, row.environment, text, 1);
}

error settings::assign_typed(const setting_row& row, setting_source source, std::string_view name,
                             std::string_view text, double factor) {
  auto value = read_setting(row, text, factor);
  if (value.kind != reading_kind::good)
    return {error_kind::invalid_argument, complaint(row, name, text, factor, value.kind)};
  values_[static_cast<std::size_t>(row.id)] = std::move(value.content);
  sources_[static_cast<std::size_t>(row.id)] = source;
  return {};
}

bool settings::flag(setting id) const {
  return std::get<bool>(values_[static_cast<std::size_t>(id)]);
}

std::int64_t settings::integer(setting id) const {
  return std::get<std::int64_t>(values_[static_cast<std::size_t>(id)]);
}

double settings::number(setting id) const {
  return std::get<double>(values_[static_cast<std::size_t>(id)]);
}

const std::string& settings::text(setting id) const {
  return std::get<std::string>(values_[static_cast<std::size_t>(id)]);
}

std::chrono::nanoseconds settings::duration(setting id) const {
  return std::get<std::chrono::nanoseconds>(values_[static_cast<std::size_t>(id)]);
}

setting_source settings::source(setting id) const {
  return sources_[static_cast<std::size_t>(id)];
}

std::string settings::plain(setting id) const {
  const auto& row = row_of(id);
  switch (row.type) {
  case setting_type::flag:
    return flag(id) ? "1" : "0";
  case setting_type::integer:
    return std::to_string(integer(id));
  case setting_type::number:
    return shown_number(number(id));
  case setting_type::text:
    return text(id);
  case setting_type::duration:
    return shown_number(static_cast<double>(duration(id).count()) / nanoseconds_per(row.unit));
  }
  assert(false);
  return {};
}

std::string settings::shown(setting id) const {
  const auto& row = row_of(id);
  if (row.type == setting_type::flag)
    return flag(id) ? "on" : "off";
  std::string value = plain(id);
  if (value.empty())
    return "unset";
  if (row.confidential)
    return "set (not shown)";
  return row.unit.empty() ? value : value + " " + std::string(row.unit);
}

std::string settings::cited(setting id) const {
  const auto& row = row_of(id);
  return std::string(row.name) + " (" + std::string(row.environment) + ") = " + shown(id);
}

std::vector<std::string> settings::given_without_effect() const {
  const auto defaults = built_in();
  std::vector<std::string> names;
  for (const auto& row : setting_table()) {
    const auto from = source(row.id);
    const bool default_switch = row.type == setting_type::flag && flag(row.id) == defaults.flag(row.id);
    if (row.has_effect || default_switch)
      continue;
    if (from == setting_source::flag)
      names.emplace_back(row.type != setting_type::flag || flag(row.id) ? row.flag : row.flag_off);
    else if (from == setting_source::file)
      names.push_back(std::string(row.yaml_key) + " (config file)");
    else if (from == setting_source::environment)
      names.emplace_back(row.environment);
  }
  return names;
}

std::string no_effect_warning(std::span<const std::string> names) {
  std::string text;
  for (std::size_t at = 0; at < names.size(); ++at)
    text += (at == 0 ? "" : at + 1 == names.size() ? " and " : ", ") + names[at];
  if (names.empty())
    return text;
  return text + (names.size() == 1 ? " has" : " have") + " no effect in this build";
}

std::vector<std::pair<std::string, std::string>> settings::job_wide() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& row : setting_table())
    if (row.job_wide)
      values.emplace_back(row.name, plain(row.id));
  return values;
}

std::vector<std::string>
settings::override_with(std::span<const std::pair<std::string, std::string>> values) {
  std::vector<std::string> lines;
  const auto table = setting_table();
  for (const auto& [name, text] : values) {
    const auto row = std::find_if(table.begin(), table.end(), [&name = name](const setting_row& candidate) {
      return candidate.job_wide && candidate.name == name;
    });
    if (row == table.end()) {
      lines.push_back("the rendezvous hands out '" + name + "', which is no job-wide setting here; ignored");
      continue;
    }
    const std::string before = shown(row->id);
    const bool chosen_here = is_set(row->id);
    if (auto problem = assign(row->id, text, setting_source::rendezvous)) {
      lines.push_back("the rendezvous hands out a value that cannot be used; ignored: " + problem.text);
      continue;
    }
    // A default is replaced silently; a value that was set explicitly is reported.
    if (chosen_here && before != shown(row->id))
      lines.push_back(std::string(row->name) + " is " + shown(row->id) + " in this job; " + before +
                      " was set here and is not used");
  }
  return lines;
}

} // namespace farandole
