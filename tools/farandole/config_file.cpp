#include "tools/farandole/config_file.hpp"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>
#include <utility>
#include <variant>

#include "elastic/thread_affinity.hpp"
#include "messages/settings/setting_reading.hpp"
#include "messages/settings/settings.hpp"
#include "messages/values/nearest_name.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

constexpr int deepest = 8;

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// Reads the nodes of one file.
class config_reader {
public:
  explicit config_reader(const std::string& path) : name_("config file " + path) {}

  expected<config_file> read(const std::string& content) {
    try { // the library reports errors by exceptions
      const auto root = YAML::Load(content);
      if (root.IsNull())
        return std::move(file_);
      if (!root.IsMap())
        return wrong(place(root.Mark()) + ": it holds no 'key: value' lines");
      if (auto problem = flatten("", root, 0))
        return problem;
      if (root["autotune"] && root["autotune"].IsMap())
        file_.values.emplace("autotune.enabled", "0");
      if (root["stall_check"] && root["stall_check"].IsMap())
        file_.values.emplace("stall_check.enabled", "1");
    } catch (const YAML::Exception& problem) {
      return wrong(place(problem.mark) + ": " + problem.msg);
    }
    return std::move(file_);
  }

private:
  std::string place(const YAML::Mark& mark) const {
    return mark.is_null() ? name_ : name_ + ", line " + std::to_string(mark.line + 1);
  }

  /// A list of plain values, such as thread_affinity may be, becomes a comma-separated list.
  expected<std::string> joined(const std::string& key, const YAML::Node& list) const {
    std::string text;
    for (const auto& entry : list) {
      if (!entry.IsScalar())
        return wrong(place(entry.Mark()) + ": '" + key + "' may hold plain values only");
      text += (text.empty() ? "" : ",") + entry.Scalar();
    }
    return text;
  }

  error flatten(const std::string& prefix, const YAML::Node& node, int depth) {
    if (depth > deepest)
      return wrong(place(node.Mark()) + ": '" + prefix + "' is nested too deeply");
    for (const auto& entry : node) {
      if (!entry.first.IsScalar())
        return wrong(place(entry.first.Mark()) + ": a key under '" + prefix + "' is not plain text");
      const std::string key = prefix + entry.first.Scalar();
      const auto& value = entry.second;
      bool truth = false;
      if (value.IsMap()) {
        if (auto problem = flatten(key + ".", value, depth + 1))
          return problem;
        continue;
      }
      if (value.IsSequence()) {
        auto text = joined(key, value);
        if (!text)
          return text.error();
        file_.values[key] = *text;
      } else if (value.IsScalar()) {
        // A quoted value is text, not a Boolean.
        const bool plain = value.Tag() != "!";
        file_.values[key] =
            plain && YAML::convert<bool>::decode(value, truth) ? (truth ? "1" : "0") : value.Scalar();
      }
      file_.places[key] = place(entry.first.Mark());
    }
    return {};
  }

  std::string name_;
  config_file file_;
};

} // namespace

expected<config_file> parse_config(const std::string& path, const std::string& content) {
  return config_reader(path).read(content);
}

expected<config_file> read_config_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf()))
    return wrong("config file " + path + " cannot be read: " + std::strerror(errno ? errno : EINVAL));
  return parse_config(path, content.str());
}

expected<std::vector<std::string>> check_config(config_file& file) {
  std::vector<std::string_view> keys;
  std::map<std::string_view, const setting_row*> rows;
  for (const auto& row : setting_table())
    if (!row.yaml_key.empty()) {
      keys.push_back(row.yaml_key);
      rows[row.yaml_key] = &row;
    }
  std::vector<std::string> warnings;
  for (auto& [key, text] : file.values) {
    const auto row = rows.find(key);
    if (row == rows.end()) {
      warnings.push_back(file.places[key] + ": there is no setting '" + key + "'" + did_you_mean(key, keys));
      continue;
    }
    const auto factor = row->second->flag_factor;
    const auto value = read_setting(*row->second, text, factor);
    if (value.kind != reading_kind::good)
      return wrong(file.places[key] + ": " + complaint(*row->second, key, text, factor, value.kind));
    if (row->second->id == setting::thread_affinity && !parse_core_list(text))
      return not_cores(file.places[key] + ": ", key, text);
    if (const auto* truth = std::get_if<bool>(&value.content))
      text = *truth ? "1" : "0";
  }
  std::erase_if(file.values, [&](const auto& entry) { return !rows.contains(entry.first); });
  return warnings;
}

error not_cores(const std::string& place, std::string_view name, std::string_view text) {
  return wrong(place + "thread affinity (" + std::string(name) + ") = '" + std::string(text) +
               "' is no core id and no comma list of them");
}

int show_config_file(const std::string& path) {
  auto file = read_config_file(path);
  const auto warnings = file ? check_config(*file) : file.error();
  if (!warnings) {
    std::cerr << "farandole settings: error: " << printable(warnings.error().text) << std::endl;
    return 2;
  }
  for (const auto& line : *warnings)
    std::cerr << "farandole settings: WARNING: " << printable(line) << "\n";
  for (const auto& [key, value] : file->values)
    std::cout << printable_name(key) << "=" << printable_name(value) << "\n";
  std::cout.flush();
  return 0;
}

} // namespace farandole
