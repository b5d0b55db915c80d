// The NCCL library that this process would use, for reports to users. Creates no communicator.
#pragma once

#include <string>
#include <vector>

#include "messages/values/error.hpp"

namespace farandole {

struct nccl_facts {
  std::string path;
  int version = 0; ///< NCCL's version code: 22809 is 2.28.9
};

/// "2.28.9" for 22809. Versions before 2.9 have codes of four digits.
std::string nccl_version_text(int version);

/// Loads NCCL, which stays loaded until the process ends. Takes libnccl.so.2 in the folder HOROVOD_NCCL_LIB or in `lib` of
/// HOROVOD_NCCL_HOME, if one of them has it; else the library that the process has loaded already, as PyTorch does; else
/// the first of `candidates` that can be loaded: paths, or names for the loader's search. The error lists the reason for
/// each; versions before 2.18.1 are refused. Thread-safe.
expected<nccl_facts> find_nccl(const std::vector<std::string>& candidates);

} // namespace farandole
