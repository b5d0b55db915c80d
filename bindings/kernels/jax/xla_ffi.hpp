// The part of XLA's C interface for foreign functions (custom calls) that our handler uses. It mirrors
// xla/ffi/api/c_api.h of OpenXLA (in JAX: jaxlib/include), version 0.3, field by field, because JAX is not there
// when Farandole is built. Every struct that crosses the interface begins with its size, so fields that a newer XLA
// appends are ignored, and fields that an older XLA lacks are noticed (offers_futures()).
#pragma once

#include <cstddef>
#include <cstdint>

namespace farandole::kernels::xla {

constexpr int known_major = 0;
constexpr int known_minor = 3;

enum class error_code : int {
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  unimplemented = 12,
  unavailable = 14
};

enum class element : int {
  pred = 1,
  s8 = 2,
  s16 = 3,
  s32 = 4,
  s64 = 5,
  u8 = 6,
  u16 = 7,
  f16 = 10,
  f32 = 11,
  f64 = 12,
  bf16 = 16
};

struct error;   // of XLA: the receiver owns it
struct future;  // of XLA: returned from a handler that has not ended yet
struct context; // of one execution

struct extension {
  std::size_t size;
  int type; // 1: metadata
  extension* next;
};

struct version {
  std::size_t size;
  extension* extensions;
  int major;
  int minor;
};

struct error_create_args {
  std::size_t size;
  extension* extensions;
  const char* message; // copied
  error_code code;
};

struct future_create_args {
  std::size_t size;
  extension* extensions;
  future* made; // out
};

struct future_available_args {
  std::size_t size;
  extension* extensions;
  future* which;
};

struct future_error_args {
  std::size_t size;
  extension* extensions;
  future* which;
  error* reason; // XLA takes it over
};

struct api {
  std::size_t size;
  extension* extensions;
  version offered;
  const void* internal;
  error* (*error_create)(error_create_args*);
  void (*error_get_message)(void*);
  void (*error_destroy)(void*);
  void* handler_register;
  void* stream_get;
  void* type_register;
  void* context_get;
  void* state_set;
  void* state_get;
  void* memory_allocate;
  void* memory_free;
  void* pool_schedule;
  void* pool_threads;
  error* (*future_create)(future_create_args*);
  error* (*future_set_available)(future_available_args*);
  error* (*future_set_error)(future_error_args*);
};

struct buffer {
  std::size_t size;
  extension* extensions;
  element type;
  void* data;
  std::int64_t dimensions;
  std::int64_t* extents;
};

/// Arguments or results: `values` points to `buffer`s where `types` says 1.
struct buffers {
  std::size_t size;
  extension* extensions;
  std::int64_t count;
  int* types;
  void** values;
};

struct text {
  const char* start;
  std::size_t length;
};

struct scalar {
  int type; // an element
  void* value;
};

enum class attribute : int { array = 1, dictionary = 2, scalar = 3, string = 4 };

/// Sorted by name.
struct attributes {
  std::size_t size;
  extension* extensions;
  std::int64_t count;
  attribute* types;
  text** names;
  void** values;
};

/// Arguments, results and attributes live until the handler has returned, or until its future is completed.
struct call_frame {
  std::size_t size;
  extension* extensions;
  const api* functions;
  context* execution;
  // 3: execute. The others come before, and never reach a handler that is registered for execution alone.
  int stage;
  buffers arguments;
  buffers results;
  attributes settings;
  future* pending; // out
};

struct metadata {
  std::size_t size;
  version built_for;
  std::uint32_t traits;
};

struct metadata_extension {
  extension base;
  metadata* wanted;
};

/// Whether XLA has futures: its table of functions includes them.
inline bool offers_futures(const api& functions) {
  return functions.size >= offsetof(api, future_set_error) + sizeof(functions.future_set_error);
}

} // namespace farandole::kernels::xla
