#include "elastic/path_objection.hpp"

#include <string>

namespace farandole {

error objection_to_path(const settings& values) {
  const bool by_path = values.text(setting::cpu_path) == "ccl";
  const bool by_library =
      values.text(setting::cpu_path) == "auto" && values.text(setting::cpu_operations) == "ccl";
  if (!values.flag(setting::elastic) || !(by_path || by_library))
    return {};
  const std::string name = by_path ? "FARANDOLE_CPU_PATH" : "HOROVOD_CPU_OPERATIONS";
  return {error_kind::precondition,
          name +
              "=ccl is not for an elastic job: a process in which oneCCL has lost a member cannot use it "
              "again. Unset " +
              name +
              ", and Farandole's own paths move the tensors; or start the job without --min-np and "
              "--host-discovery-script (HOROVOD_ELASTIC)"};
}

} // namespace farandole
