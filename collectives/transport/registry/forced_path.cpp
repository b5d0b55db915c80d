#include "collectives/transport/registry/forced_path.hpp"

#include "collectives/transport/path_table.hpp"

namespace farandole {

namespace {

path_protection protection_of(std::string_view path) {
  const auto* row = find_path(path);
  return row != nullptr ? row->protection : path_protection::authenticated;
}

error objection_to_elastic(const forced_path& path) {
  const auto* row = find_path(path.name);
  if (row == nullptr || row->not_elastic.empty())
    return {};
  const std::string variable(path.variable);
  return {error_kind::precondition, variable + "=" + path.name + " is not for an elastic job: " +
                                        std::string(row->not_elastic) + ". Unset " + variable +
                                        ", and Farandole's own paths move the tensors; or start the job "
                                        "without --min-np and --host-discovery-script (HOROVOD_ELASTIC)"};
}

error objection_to_ports(const forced_path& path, const settings& values) {
  const auto* row = find_path(path.name);
  const auto& ports = values.text(setting::port_range);
  if (row == nullptr || !row->chooses_ports || ports.empty())
    return {};
  const std::string variable(path.variable);
  return {error_kind::precondition,
          "FARANDOLE_PORT_RANGE=" + ports + " does not work with " + variable + "=" + path.name +
              ", whose library listens on ports of its own choice. Unset " + variable +
              ", and Farandole's own paths move the tensors; or unset "
              "FARANDOLE_PORT_RANGE"};
}

} // namespace

forced_path find_forced_path(const settings& values) {
  if (const auto& path = values.text(setting::cpu_path); path != "auto")
    return {path, "FARANDOLE_CPU_PATH"};
  const auto& library = values.text(setting::cpu_operations);
  if (library == "mpi" || library == "ccl")
    return {library, "HOROVOD_CPU_OPERATIONS"};
  return {};
}

bool is_authenticated(std::string_view path) {
  return protection_of(path) == path_protection::authenticated;
}

error objection_to_path(const settings& values) {
  const auto path = find_forced_path(values);
  if (values.flag(setting::elastic))
    if (auto problem = objection_to_elastic(path))
      return problem;
  if (auto problem = objection_to_ports(path, values))
    return problem;
  const std::string variable(path.variable);
  if (values.flag(setting::require_secure) && !is_authenticated(path.name))
    return {error_kind::precondition, variable + "=" + path.name +
                                          " moves tensors that nothing protects on the network, and "
                                          "FARANDOLE_REQUIRE_SECURE is set. Unset " +
                                          variable + ", and Farandole's own paths move the tensors"};
  if (protection_of(path.name) != path_protection::none || values.flag(setting::trusted_network))
    return {};
  return {error_kind::precondition,
          variable + "=" + path.name +
              " moves tensors that are neither authenticated nor encrypted: any process that reaches the "
              "workers' ports can read and forge them. Unset " +
              variable +
              ", and Farandole's own paths move the tensors; or set FARANDOLE_TRUSTED_NETWORK=1 if you trust "
              "every process that can reach the workers"};
}

std::string unprotected_path_warning(const settings& values) {
  const auto path = find_forced_path(values);
  const auto protection = protection_of(path.name);
  if (protection == path_protection::authenticated || protection == path_protection::unknown ||
      !values.flag(setting::trusted_network))
    return {};
  return "tensors travel by " + path.name + " (" + std::string(path.variable) +
         "), neither authenticated nor encrypted, because FARANDOLE_TRUSTED_NETWORK is set";
}

} // namespace farandole
