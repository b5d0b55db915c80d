#include "cuda/nccl/nccl_functions.hpp"

#include <dlfcn.h>

namespace farandole {

namespace {

struct function_search {
  void* library;
  std::string missing = {};

  template <class Function>
  void find_optional(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(library, name));
  }
  template <class Function>
  void find(Function& function, const char* name) {
    find_optional(function, name);
    if (function == nullptr)
      missing = name;
  }
};

} // namespace

error nccl_functions::failure(const std::string& function, ncclResult_t result,
                              ncclComm_t communicator) const {
  const char* details = last_error(communicator);
  return {error_kind::unknown,
          function + " failed: " + error_text(result) +
              (details != nullptr && *details != '\0' ? " (" + std::string(details) + ")" : std::string())};
}

expected<nccl_functions> find_nccl_functions(void* library, const std::string& path, int version) {
  nccl_functions functions;
  functions.path = path;
  functions.version = version;
  function_search search{library};
  search.find(functions.get_unique_id, "ncclGetUniqueId");
  search.find(functions.init_rank, "ncclCommInitRankConfig");
  search.find(functions.async_error, "ncclCommGetAsyncError");
  search.find(functions.abort, "ncclCommAbort");
  search.find_optional(functions.revoke, "ncclCommRevoke");
  search.find(functions.group_start, "ncclGroupStart");
  search.find(functions.group_end, "ncclGroupEnd");
  search.find(functions.allreduce, "ncclAllReduce");
  search.find(functions.broadcast, "ncclBroadcast");
  search.find(functions.error_text, "ncclGetErrorString");
  search.find(functions.last_error, "ncclGetLastError");
  if (!search.missing.empty())
    return error{error_kind::unimplemented, "NCCL " + path + " has no function " + search.missing};
  return functions;
}

} // namespace farandole
