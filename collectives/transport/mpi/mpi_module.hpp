// The interface of a small shared object between the core and MPI. MPI's handles are symbols of one MPI
// library, so code that names them must be linked against that library, and the core is not. Only byte
// ranges, numbers and opaque handles cross the interface.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farandole {

/// A communicator or a request of MPI, as a number.
using mpi_handle = std::uint64_t;

enum class mpi_level : std::int32_t { single, funneled, serialized, multiple };

/// The state of MPI in this process.
struct mpi_state {
  bool initialized;
  bool finalized;
  bool main_thread; ///< whether the calling thread initialized MPI; valid once initialized
  mpi_level level;  ///< valid once initialized
  std::int32_t rank;
  std::int32_t size;
  std::int32_t tag_limit; ///< greatest tag
};

/// Each function returns 0 or MPI's error code.
struct mpi_module {
  std::uint32_t version; ///< must equal the caller's mpi_module_version

  int (*look)(mpi_state* state);
  int (*initialize)(mpi_level wanted);
  int (*finalize)();
  /// Creates a communicator of these ranks of MPI's world, in this order. All of them must call it; it blocks
  /// until they do.
  int (*form)(const std::int32_t* ranks, std::int32_t count, mpi_handle* group);
  int (*send)(mpi_handle group, std::int32_t peer, std::int32_t tag, const void* data, std::size_t bytes,
              mpi_handle* request);
  int (*receive)(mpi_handle group, std::int32_t peer, std::int32_t tag, void* data, std::size_t bytes,
                 mpi_handle* request);
  /// Tests `count` requests. Stores the number of finished ones in `done` and, for each of these, its index
  /// in `places`, its error code in `codes` and the number of received bytes in `received` (undefined for
  /// sends). All arrays have room for `count` entries.
  int (*test)(mpi_handle* requests, std::int32_t count, std::int32_t* done, std::int32_t* places,
              std::int32_t* codes, std::uint64_t* received);
  int (*cancel)(mpi_handle request);
  /// Writes the text of an error code. `bytes` must be at least 256.
  void (*describe)(int code, char* text, std::size_t bytes);
};

inline constexpr std::uint32_t mpi_module_version = 3;

/// The type of the one function that the module exports.
using mpi_module_entry = const mpi_module* (*)();
inline constexpr const char* mpi_module_symbol = "farandole_mpi_module";

} // namespace farandole
