#include "collectives/paths/forced_path.hpp"

#include <algorithm>
#include <span>

namespace farandole {

namespace {

constexpr std::string_view unauthenticated[] = {"ucx", "gloo", "mpi", "ccl", "outside"};
/// These use the network without any protection, whichever network it is. UCX's own code looks at the
/// devices, since some of them protect memory by keys; the library behind `outside` is the user's own.
constexpr std::string_view always_unprotected[] = {"gloo", "mpi", "ccl"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

error objection_to_elastic(const forced_path& path) {
  if (path.name != "ccl")
    return {};
  const std::string variable(path.variable);
  return {error_kind::precondition,
          variable +
              "=ccl is not for an elastic job: a process in which oneCCL has lost a member cannot use it "
              "again. Unset " +
              variable +
              ", and Farandole's own paths move the tensors; or start the job without --min-np and "
              "--host-discovery-script (HOROVOD_ELASTIC)"};
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
  return !contains(unauthenticated, path);
}

error objection_to_path(const settings& values) {
  const auto path = find_forced_path(values);
  if (values.flag(setting::elastic))
    if (auto problem = objection_to_elastic(path))
      return problem;
  if (!contains(always_unprotected, path.name) || values.flag(setting::trusted_network))
    return {};
  const std::string variable(path.variable);
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
  if (is_authenticated(path.name) || path.name == "outside" || !values.flag(setting::trusted_network))
    return {}; // what the user's own library protects is known to the user alone
  return "tensors travel by " + path.name + " (" + std::string(path.variable) +
         "), neither authenticated nor encrypted, because FARANDOLE_TRUSTED_NETWORK is set";
}

} // namespace farandole
