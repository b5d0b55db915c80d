#include "messages/settings/known_variables.hpp"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "messages/settings/settings.hpp"
#include "messages/values/nearest_name.hpp"

namespace farandole {

namespace {

/// Known variables that are not settings. A name that ends in '*' stands for all names with that prefix.
constexpr std::string_view other_variables[] = {
    // Set by the launcher for workers of elastic jobs.
    "FARANDOLE_MAX_NP",
    "FARANDOLE_CALL_DESCRIPTOR",
    "FARANDOLE_LAUNCHER_PROCESS",
    "FARANDOLE_RESET_LIMIT",
    // Set by the launcher for workers of jobs on several hosts.
    "FARANDOLE_MEMBER_ADDRESS",
    // For tests of Farandole itself.
    "FARANDOLE_TEST_*",
    "FARANDOLE_TESTING",
    "FARANDOLE_LAUNCHER",
    "FARANDOLE_WRITE_TRANSCRIPTS",
    // Horovod's variables for its build.
    "HOROVOD_WITH_*",
    "HOROVOD_WITHOUT_*",
    "HOROVOD_GPU",
    "HOROVOD_NCCL_HOME",
    "HOROVOD_NCCL_INCLUDE",
    "HOROVOD_NCCL_LIB",
    "HOROVOD_NCCL_LINK",
    "HOROVOD_NVTX_INCLUDE",
    "HOROVOD_CUDA_*",
    "HOROVOD_ROCM_*",
    "HOROVOD_BUILD_*",
    "HOROVOD_DEBUG",
    "HOROVOD_CMAKE",
    "HOROVOD_LOCAL_VERSION",
    "HOROVOD_SKIP_COMPILE",
    "HOROVOD_ALLOW_MIXED_GPU_IMPL",
};

constexpr std::string_view prefixes[] = {"FARANDOLE_", "HOROVOD_"};

std::string_view prefix_of(std::string_view name) {
  for (const auto prefix : prefixes)
    if (name.starts_with(prefix))
      return prefix;
  return {};
}

/// Kubernetes sets variables for each service in every container. For a service "horovod-master" it sets
/// HOROVOD_MASTER_SERVICE_HOST, HOROVOD_MASTER_PORT, HOROVOD_MASTER_PORT_22_TCP_ADDR and others.
bool is_service_link(std::string_view name, std::span<const std::string> variables) {
  for (const std::string_view part : {"_SERVICE_", "_PORT"})
    if (const auto at = name.find(part); at != std::string_view::npos) {
      const auto host = std::string(name.substr(0, at)) + "_SERVICE_HOST";
      if (std::find(variables.begin(), variables.end(), host) != variables.end())
        return true;
    }
  return false;
}

/// The nearest known variable, whichever of the two prefixes it has.
std::string_view nearest_variable(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& row : setting_table())
    names.push_back(row.environment);
  for (const auto other : other_variables)
    if (!other.ends_with('*'))
      names.push_back(other);
  std::vector<std::string_view> parts; // without the prefixes, which all names share
  for (const auto variable : names)
    parts.push_back(variable.substr(prefix_of(variable).size()));
  const auto nearest = nearest_name(name.substr(prefix_of(name).size()), parts);
  if (nearest.empty())
    return {};
  // Of two variables that differ in the prefix only, the one with the same prefix.
  std::string_view found;
  for (std::size_t at = 0; at < names.size(); ++at)
    if (parts[at] == nearest && (found.empty() || prefix_of(names[at]) == prefix_of(name)))
      found = names[at];
  return found;
}

} // namespace

bool is_known_variable(std::string_view name) {
  const auto table = setting_table();
  if (std::any_of(table.begin(), table.end(),
                  [&](const setting_row& row) { return row.environment == name; }))
    return true;
  for (const auto other : other_variables)
    if (other.ends_with('*') ? name.starts_with(other.substr(0, other.size() - 1)) : name == other)
      return true;
  return false;
}

std::string unknown_variables_warning(std::span<const std::string> variables) {
  constexpr std::size_t most_named = 10;
  std::vector<std::string> unknown;
  for (const auto& name : variables)
    if (!prefix_of(name).empty() && !is_known_variable(name) && !is_service_link(name, variables))
      unknown.push_back(name);
  if (unknown.empty())
    return {};
  std::sort(unknown.begin(), unknown.end());
  std::string text =
      unknown.size() == 1 ? "unknown environment variable: " : "unknown environment variables: ";
  for (std::size_t at = 0; at < std::min(unknown.size(), most_named); ++at) {
    const auto nearest = nearest_variable(unknown[at]);
    text += (at == 0 ? "" : ", ") + unknown[at];
    if (!nearest.empty())
      text += " (did you mean " + std::string(nearest) + "?)";
  }
  if (unknown.size() > most_named)
    text += " and " + std::to_string(unknown.size() - most_named) + " more";
  return text + "; nothing reads " + (unknown.size() == 1 ? "it" : "them");
}

std::vector<std::string> process_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

} // namespace farandole
