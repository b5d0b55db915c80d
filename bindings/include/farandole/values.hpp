// The arguments and results of the C++ interface as plain values: errors, the enumerations of operations, dtypes and
// reductions, and the options of a job and of a call. Programs include farandole.hpp, which includes this header.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <farandole/farandole.h>

namespace farandole {

/// How an operation can fail, and so what the caller should do; see farandole_status.
enum class error_kind : std::uint8_t {
  none = FARANDOLE_OK,
  precondition = FARANDOLE_PRECONDITION,
  invalid_argument = FARANDOLE_INVALID_ARGUMENT,
  unknown = FARANDOLE_UNKNOWN,
  aborted = FARANDOLE_ABORTED,
  disconnected = FARANDOLE_DISCONNECTED,
  overloaded = FARANDOLE_OVERLOADED,
  unimplemented = FARANDOLE_UNIMPLEMENTED,
  timed_out = FARANDOLE_TIMED_OUT,
  dismissed = FARANDOLE_DISMISSED,
  mismatch = FARANDOLE_MISMATCH,
  shut_down = FARANDOLE_SHUT_DOWN,
};

/// The name of a kind: "timed_out".
constexpr std::string_view to_string(error_kind kind) {
  constexpr std::string_view names[] = {"none",      "precondition", "invalid_argument", "unknown",
                                        "aborted",   "disconnected", "overloaded",       "unimplemented",
                                        "timed_out", "dismissed",    "mismatch",         "shut_down"};
  return names[static_cast<std::size_t>(kind)];
}

struct error {
  error_kind kind = error_kind::none;
  std::string text; ///< for people: names the tensor, the ranks and both values

  explicit operator bool() const { return kind != error_kind::none; }
  friend bool operator==(const error&, const error&) = default;
};

/// A value, or the error that explains its absence. Access to the absent one of them is undefined; check first.
template <class T>
class expected {
public:
  expected(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  expected(farandole::error problem) : content_(std::in_place_index<1>, std::move(problem)) {}

  explicit operator bool() const { return content_.index() == 0; }
  T& operator*() { return *std::get_if<0>(&content_); }
  const T& operator*() const { return *std::get_if<0>(&content_); }
  T* operator->() { return std::get_if<0>(&content_); }
  const T* operator->() const { return std::get_if<0>(&content_); }
  const farandole::error& error() const { return *std::get_if<1>(&content_); }

private:
  std::variant<T, farandole::error> content_;
};

/// Tensors that some ranks have submitted and others have not for longer than the stall warning time.
struct stall_report {
  std::string text;  ///< for people: names the tensors, how long they have waited, and the missing ranks
  bool over = false; ///< the stall is over
};

enum class operation : std::uint8_t {
  allreduce = FARANDOLE_ALLREDUCE,
  allgather = FARANDOLE_ALLGATHER,
  broadcast = FARANDOLE_BROADCAST,
  barrier = FARANDOLE_BARRIER,
  join = FARANDOLE_JOIN,
  alltoall = FARANDOLE_ALLTOALL,
  reducescatter = FARANDOLE_REDUCESCATTER,
};

enum class dtype : std::uint8_t {
  uint8 = FARANDOLE_UINT8,
  int8 = FARANDOLE_INT8,
  uint16 = FARANDOLE_UINT16,
  int16 = FARANDOLE_INT16,
  int32 = FARANDOLE_INT32,
  int64 = FARANDOLE_INT64,
  float16 = FARANDOLE_FLOAT16,
  bfloat16 = FARANDOLE_BFLOAT16,
  float32 = FARANDOLE_FLOAT32,
  float64 = FARANDOLE_FLOAT64,
  boolean = FARANDOLE_BOOL,
};

enum class reduce_op : std::uint8_t {
  average = FARANDOLE_AVERAGE,
  sum = FARANDOLE_SUM,
  adasum = FARANDOLE_ADASUM,
  min = FARANDOLE_MIN,
  max = FARANDOLE_MAX,
  product = FARANDOLE_PRODUCT,
};

enum class completion_mode : std::uint8_t {
  any = FARANDOLE_COMPLETION_ANY,
  wait = FARANDOLE_COMPLETION_WAIT,
  callback = FARANDOLE_COMPLETION_CALLBACK,
};

/// The dtype of a C++ element type; empty if there is none. float16 and bfloat16 have no type in C++20: submit them by
/// runtime::submit().
template <class T>
constexpr std::optional<dtype> dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return dtype::boolean;
  else if constexpr (std::is_same_v<T, float>)
    return dtype::float32;
  else if constexpr (std::is_same_v<T, double>)
    return dtype::float64;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
    return std::is_signed_v<T> ? dtype::int8 : dtype::uint8;
  else if constexpr (std::is_integral_v<T> && sizeof(T) == 2)
    return std::is_signed_v<T> ? dtype::int16 : dtype::uint16;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 4)
    return dtype::int32;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8)
    return dtype::int64;
  else
    return std::nullopt;
}

template <class T>
concept element = (dtype_of<T>() != std::nullopt);

/// What all members must submit alike for one name, except the first extents of allgather and alltoall.
struct signature {
  farandole::operation operation = farandole::operation::allreduce;
  farandole::dtype dtype = farandole::dtype::float32;
  farandole::reduce_op reduce_op = farandole::reduce_op::sum;
  std::int32_t root = -1; ///< broadcast: the global rank of the source, in every process set
  double prescale = 1.0;
  double postscale = 1.0;
  std::vector<std::int64_t> shape; ///< extents in elements, outermost first; empty: a scalar
};

/// When the bytes of a tensor in GPU memory are ready; see farandole_readiness.
enum class readiness : std::uint8_t { on_stream = 0, now = 1, in_context = 2 };

/// One tensor and what to do with it; see farandole_submission. The buffers must stay valid, and the caller must leave
/// them alone, until the handle has settled (GPU memory: is released); everything else is copied.
struct submission {
  std::string_view name;
  farandole::signature signature;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint32_t set = 0;
  std::span<const std::int64_t> splits;
  completion_mode completion = completion_mode::any;
  std::int32_t device = -1; ///< the GPU in whose memory input and output are; -1: host memory
  void* stream = nullptr;   ///< a CUstream of the GPU; null: its default stream
  farandole::readiness readiness = farandole::readiness::on_stream;
};

/// The result of an operation beyond the caller's output; valid as long as a copy of its handle. See farandole_result.
struct result {
  std::span<const std::byte> bytes;
  std::span<const std::int64_t> first_dims;
  std::int32_t last_rank = -1;
};

/// Where and for how long a typed operation runs.
struct call_options {
  std::uint32_t set = 0;                                      ///< process set; 0 is the global one
  std::chrono::milliseconds timeout{-1};                      ///< -1: until it completes or fails
  farandole::reduce_op reduce_op = farandole::reduce_op::sum; ///< allreduce and reducescatter
  double prescale = 1.0;                                      ///< allreduce and reducescatter
  double postscale = 1.0;                                     ///< allreduce and reducescatter
};

struct options {
  /// Settings by the name of their environment variable ("HOROVOD_RANK"); they take precedence over the environment.
  std::map<std::string, std::string> settings = {};
  /// Whether the environment of the process is read too.
  bool read_environment = true;
  /// The secret of the job; empty: read from FARANDOLE_SECRET_FD, FARANDOLE_SECRET_FILE or FARANDOLE_SECRET,
  /// of which the last one is removed from the environment.
  std::string secret = {};
  /// Process sets that exist from the start, with ids from 1, each by its global ranks in any order. Every member must
  /// name the same ones, or no member starts.
  std::vector<std::vector<std::int32_t>> process_sets = {};
  /// Elastic jobs; see farandole_options.
  std::uint64_t progress = 0;
  std::uint64_t state_generation = 0;
  std::uint64_t epoch = 0;
};

} // namespace farandole
