#include "tools/farandole/config_file.hpp"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "messages/values/printable.hpp"

namespace farandole {

namespace {

constexpr int deepest = 8;

error wrong(std::string text) {
  return {error_kind::invalid_argument, std::move(text)};
}

/// A list of plain values, such as thread_affinity may be, becomes a comma-separated list.
expected<std::string> joined(const std::string& key, const YAML::Node& list) {
  std::string text;
  for (const auto& entry : list) {
    if (!entry.IsScalar())
      return wrong("'" + key + "' may hold plain values only");
    text += (text.empty() ? "" : ",") + entry.Scalar();
  }
  return text;
}

error flatten(const std::string& prefix, const YAML::Node& node, int depth,
              std::map<std::string, std::string>& values) {
  if (depth > deepest)
    return wrong("'" + prefix + "' is nested too deeply");
  for (const auto& entry : node) {
    if (!entry.first.IsScalar())
      return wrong("a key under '" + prefix + "' is not plain text");
    const std::string key = prefix + entry.first.Scalar();
    const auto& value = entry.second;
    bool truth = false;
    if (value.IsMap()) {
      if (auto problem = flatten(key + ".", value, depth + 1, values))
        return problem;
    } else if (value.IsSequence()) {
      auto text = joined(key, value);
      if (!text)
        return text.error();
      values[key] = *text;
    } else if (value.IsScalar()) {
      // A quoted value is text, not a Boolean.
      const bool plain = value.Tag() != "!";
      values[key] = plain && YAML::convert<bool>::decode(value, truth) ? (truth ? "1" : "0") : value.Scalar();
    }
  }
  return {};
}

} // namespace

expected<std::map<std::string, std::string>> parse_config(const std::string& content) {
  std::map<std::string, std::string> values;
  try { // the library reports errors by exceptions
    const auto root = YAML::Load(content);
    if (root.IsNull())
      return values;
    if (!root.IsMap())
      return wrong("it holds no 'key: value' lines");
    if (auto problem = flatten("", root, 0, values))
      return problem;
    if (root["autotune"] && root["autotune"].IsMap())
      values.emplace("autotune.enabled", "0");
    if (root["stall_check"] && root["stall_check"].IsMap())
      values.emplace("stall_check.enabled", "1");
  } catch (const YAML::Exception& problem) {
    return wrong(problem.what());
  }
  return values;
}

expected<std::map<std::string, std::string>> read_config_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf()))
    return wrong("config file " + path + " cannot be read: " + std::strerror(errno ? errno : EINVAL));
  auto values = parse_config(content.str());
  if (!values)
    return wrong("config file " + path + ": " + values.error().text);
  return values;
}

int show_config_file(const std::string& path) {
  const auto values = read_config_file(path);
  if (!values) {
    std::cerr << "farandole settings: error: " << printable(values.error().text) << std::endl;
    return 2;
  }
  for (const auto& [key, value] : *values)
    std::cout << printable_name(key) << "=" << printable_name(value) << "\n";
  std::cout.flush();
  return 0;
}

} // namespace farandole
