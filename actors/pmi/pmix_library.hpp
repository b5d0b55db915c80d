// The part of the PMIx interface that Farandole calls, and the library that implements it. The library is loaded at run
// time, because it must suit the launcher and no build of Farandole can know which one that will be.
//
// The types are those of the PMIx standard 4.1 (https://pmix.org), sections 3.2 to 3.4, with the layouts of
// pmix_common.h, which OpenPMIx has kept from version 3 to 5 as part of its binary interface.
#pragma once

#include <cstddef>
#include <cstdint>

#include "messages/values/error.hpp"

namespace farandole {

using pmix_status = int;

inline constexpr pmix_status pmix_success = 0;
inline constexpr std::uint32_t pmix_rank_wildcard = 0xfffffffe;
inline constexpr std::uint8_t pmix_global = 3; ///< scope of a value: for all processes
inline constexpr std::uint16_t pmix_type_bool = 1, pmix_type_string = 3, pmix_type_int = 6,
                               pmix_type_uint32 = 14;

struct pmix_proc {
  char nspace[256] = {}; ///< the job
  std::uint32_t rank = 0;
};

struct pmix_value {
  std::uint16_t type = 0;
  union {
    bool flag;
    int integer;
    std::uint32_t uint32;
    char* string;
    std::byte all[24];
  } data = {.all = {}};
};

struct pmix_info {
  char key[512] = {};
  std::uint32_t flags = 0;
  pmix_value value;
};

struct pmix_library {
  pmix_status (*initialize)(pmix_proc* self, pmix_info* infos, std::size_t count);
  pmix_status (*finalize)(const pmix_info* infos, std::size_t count);
  pmix_status (*put)(std::uint8_t scope, const char* key, pmix_value* value);
  pmix_status (*commit)();
  pmix_status (*fence)(const pmix_proc* processes, std::size_t count, const pmix_info* infos,
                       std::size_t info_count);
  /// The caller frees the value and its string with free().
  pmix_status (*get)(const pmix_proc* process, const char* key, const pmix_info* infos, std::size_t count,
                     pmix_value** value);
  const char* (*error_string)(pmix_status status);
};

/// Loads the library once; it stays loaded until the process ends. It is looked for among the libraries that are loaded
/// already, in the installation of the Open MPI that started this process (PMIX_PREFIX, OPAL_PREFIX,
/// OMPI_LIBDIR_LOC), and where the loader finds it (LD_LIBRARY_PATH). Thread-safe.
const expected<pmix_library>& load_pmix();

} // namespace farandole
