// Between the core and MPI stands a small shared object of its own: MPI's handles are symbols of one library,
// so whoever names them must be linked against that library, and the core is not. What crosses is plain: byte
// ranges, numbers, and handles that only the module can read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farandole {

/// A communicator or a request of MPI, as a number.
using mpi_handle = std::uint64_t;

enum class mpi_level : std::int32_t { single, funneled, serialized, multiple };

/// What the process has of MPI.
struct mpi_state {
  bool initialized;
  bool finalized;
  bool main_thread; ///< the calling thread is the one that initialized it; once initialized
  mpi_level level;  ///< once initialized
  std::int32_t rank;
  std::int32_t size;
  std::int32_t tag_limit; ///< greatest tag
};

/// Each function answers 0, or MPI's error code.
struct mpi_module {
  std::uint32_t version; ///< must equal the caller's mpi_module_version

  int (*look)(mpi_state* state);
  int (*initialize)(mpi_level wanted);
  int (*finalize)();
  /// A communicator of these ranks of the world, in this order; all of them call it. It blocks until they do.
  /// `one_host`: whether they can share memory.
  int (*form)(const std::int32_t* ranks, std::int32_t count, mpi_handle* group, bool* one_host);
  int (*send)(mpi_handle group, std::int32_t peer, std::int32_t tag, const void* data, std::size_t bytes,
              mpi_handle* request);
  int (*receive)(mpi_handle group, std::int32_t peer, std::int32_t tag, void* data, std::size_t bytes,
                 mpi_handle* request);
  /// The places of those that are done, `done` of them, with a code and how many bytes came for each (of
  /// sends: anything); all have room for `count`.
  int (*test)(mpi_handle* requests, std::int32_t count, std::int32_t* done, std::int32_t* places,
              std::int32_t* codes, std::uint64_t* received);
  int (*cancel)(mpi_handle request);
  /// At least 256 bytes.
  void (*describe)(int code, char* text, std::size_t bytes);
};

inline constexpr std::uint32_t mpi_module_version = 2;

/// Of the one function that the module exports.
using mpi_module_entry = const mpi_module* (*)();
inline constexpr const char* mpi_module_symbol = "farandole_mpi_module";

} // namespace farandole
