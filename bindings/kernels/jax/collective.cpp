// XLA's custom call "farandole_collective": one collective operation, or several as one group, inside a
// program that JAX has compiled. Everything but the tensors is fixed when the program is traced and comes as
// attributes:
//
//   name       string  the operation's full name; members of a group are called "<name>_<i>of<n>", from 1
//   operation  s32     a farandole_operation
//   reduce_op  s32     a farandole_reduce_op
//   root       s32     the global rank that a broadcast comes from, or -1
//   set        s32     the process set's number
//   is_even    s32     1 if every rank of an allgather brings equally many rows
//   prescale, postscale  f64
//
// There are as many results as arguments. The handler submits and gives XLA a future, so no thread of XLA's
// pool waits, and operations that do not depend on each other run at the same time where XLA starts both.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/kernels/jax/types.hpp"
#include "bindings/kernels/jax/xla_ffi.hpp"
#include "bindings/kernels/unsupported_dtype.hpp"
#include <farandole/kernel_api.h>

namespace farandole::kernels {
namespace {

const farandole_kernel_api* api = nullptr;

struct failure {
  xla::error_code code;
  std::string text;
};

xla::error* as_error(const xla::api& functions, const failure& failure) {
  xla::error_create_args args = {sizeof(args), nullptr, failure.text.c_str(), failure.code};
  return functions.error_create(&args);
}

/// The memory of a tensor. XLA owns the bytes until the call has ended; the shape is a copy.
struct tensor {
  void* data = nullptr;
  std::vector<std::int64_t> shape;

  void take(const xla::buffer& from) {
    data = from.data;
    shape.assign(from.extents, from.extents + from.dimensions);
  }
};

struct member {
  std::string name;
  farandole_dtype dtype = FARANDOLE_FLOAT32;
  tensor input, output;
  farandole_handle* handle = nullptr;

  std::size_t bytes(const tensor& which) const {
    std::size_t count = bytes_of(dtype);
    for (const auto extent : which.shape)
      count *= static_cast<std::size_t>(extent);
    return count;
  }
};

/// A call from its submission until the last of its members has settled.
struct call {
  const xla::api* functions = nullptr;
  xla::future* pending = nullptr;
  farandole_submission asked = FARANDOLE_SUBMISSION_INIT;
  bool is_even = true;
  std::vector<member> members;
  std::atomic<std::size_t> unsettled = 0;

  /// Whether the core allocates the outputs, so that the handler copies them to XLA's buffers.
  bool is_copied() const {
    return asked.operation != FARANDOLE_ALLREDUCE && asked.operation != FARANDOLE_BROADCAST;
  }
};

std::optional<double> number(const xla::attributes& settings, std::string_view name) {
  for (std::int64_t i = 0; i < settings.count; ++i) {
    if (std::string_view(settings.names[i]->start, settings.names[i]->length) != name ||
        settings.types[i] != xla::attribute::scalar)
      continue;
    const auto* found = static_cast<const xla::scalar*>(settings.values[i]);
    if (found->type == static_cast<int>(xla::element::f64))
      return *static_cast<const double*>(found->value);
    if (found->type == static_cast<int>(xla::element::s32))
      return *static_cast<const std::int32_t*>(found->value);
  }
  return std::nullopt;
}

std::optional<std::string> string(const xla::attributes& settings, std::string_view name) {
  for (std::int64_t i = 0; i < settings.count; ++i)
    if (std::string_view(settings.names[i]->start, settings.names[i]->length) == name &&
        settings.types[i] == xla::attribute::string) {
      const auto* found = static_cast<const xla::text*>(settings.values[i]);
      return std::string(found->start, found->length);
    }
  return std::nullopt;
}

std::optional<failure> read_settings(const xla::attributes& settings, call& call, std::string& name) {
  const auto given = string(settings, "name");
  const auto operation = number(settings, "operation"), reduce_op = number(settings, "reduce_op"),
             root = number(settings, "root"), set = number(settings, "set"),
             prescale = number(settings, "prescale"), postscale = number(settings, "postscale"),
             is_even = number(settings, "is_even");
  if (!given || !operation || !reduce_op || !root || !set || !prescale || !postscale || !is_even)
    return failure{
        xla::error_code::invalid_argument,
        "farandole_collective: an attribute is missing or of another type: this program was traced "
        "by another version of Farandole"};
  name = *given;
  call.asked.operation = static_cast<std::int32_t>(*operation);
  call.asked.reduce_op = static_cast<std::int32_t>(*reduce_op);
  call.asked.root = static_cast<std::int32_t>(*root);
  call.asked.set = static_cast<std::uint32_t>(*set);
  call.asked.prescale = *prescale;
  call.asked.postscale = *postscale;
  call.is_even = *is_even != 0;
  return std::nullopt;
}

std::optional<failure> read_tensors(const xla::call_frame& frame, const std::string& name, call& call) {
  const auto count = static_cast<std::size_t>(frame.arguments.count);
  if (count == 0 || frame.arguments.count != frame.results.count)
    return failure{xla::error_code::invalid_argument, name + ": there must be as many results as tensors"};
  call.members.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto& entry = call.members[i];
    entry.name = count == 1 ? name : name + "_" + std::to_string(i + 1) + "of" + std::to_string(count);
    const auto& input = *static_cast<const xla::buffer*>(frame.arguments.values[i]);
    const auto& output = *static_cast<const xla::buffer*>(frame.results.values[i]);
    const auto dtype = dtype_of(input.type);
    if (!dtype)
      return failure{
          xla::error_code::invalid_argument,
          entry.name + ": " +
              unsupported_dtype_refusal(call.asked.operation,
                                        "XLA's type number " + std::to_string(static_cast<int>(input.type)))};
    if (output.type != input.type)
      return failure{xla::error_code::invalid_argument, entry.name + ": result and tensor differ in type"};
    entry.dtype = *dtype;
    entry.input.take(input);
    entry.output.take(output);
    if (!call.is_copied() && entry.bytes(entry.input) != entry.bytes(entry.output))
      return failure{xla::error_code::invalid_argument, entry.name + ": result and tensor differ in size"};
  }
  return std::nullopt;
}

/// Python recognises from the beginning of the text that this is a failure of Farandole, and its kind. The name of
/// the tensor follows, even if the core's text is about the job as a whole.
failure refused(const farandole_error& reason, const std::string& name) {
  const std::string text = reason.text;
  return {code_of(reason.status),
          std::string("farandole_collective (") + api->kind_of(reason.status) +
              "): " + (text.find(name) == std::string::npos ? name + ": " + text : text)};
}

std::optional<failure> submit(call& call) {
  std::vector<farandole_submission> submissions(call.members.size(), call.asked);
  std::vector<farandole_handle*> handles(call.members.size());
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    const auto& entry = call.members[i];
    submissions[i].name = entry.name.c_str();
    submissions[i].dtype = entry.dtype;
    submissions[i].shape = entry.input.shape.data();
    submissions[i].dimensions = entry.input.shape.size();
    submissions[i].input = entry.input.data;
    submissions[i].output = call.is_copied() ? nullptr : entry.output.data;
  }
  farandole_error reason = {};
  if (api->submit(submissions.data(), submissions.size(), handles.data(), &reason) != FARANDOLE_OK)
    return refused(reason, call.members.front().name);
  for (std::size_t i = 0; i < handles.size(); ++i)
    call.members[i].handle = handles[i];
  return std::nullopt;
}

std::string listed(const std::int64_t* numbers, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

/// Shapes are fixed when a program is compiled, but the result may have another shape.
failure misfit(const member& which, const farandole_result& came) {
  std::int32_t rank = -1;
  api->ask(FARANDOLE_ASK_RANK, 0, &rank, nullptr);
  return {xla::error_code::invalid_argument,
          which.name + " on rank " + std::to_string(rank) + ": the compiled program expects " +
              std::to_string(which.bytes(which.output)) + " bytes of rows shaped " +
              listed(which.output.shape.data(), which.output.shape.size()) + ", but " +
              std::to_string(came.byte_count) +
              " bytes came (rows by rank: " + listed(came.first_dims, came.first_dim_count) +
              "). Inside jit shapes are fixed: all ranks must bring equally many rows, and as many ranks as "
              "when it was "
              "traced; call it outside jit, or clear JAX's caches after the job has changed its size"};
}

bool fits(const call& call, const member& which, const farandole_result& came) {
  if (came.byte_count != which.bytes(which.output))
    return false;
  // If ranks differ, the sum of the rows may be right by accident.
  return !call.is_even || std::all_of(came.first_dims, came.first_dims + came.first_dim_count,
                                      [&](std::int64_t rows) { return rows == came.first_dims[0]; });
}

std::optional<failure> take_result(const call& call, const member& which) {
  farandole_error reason = {};
  if (api->wait(which.handle, 0, &reason) != FARANDOLE_OK)
    return refused(reason, which.name);
  if (!call.is_copied())
    return std::nullopt;
  farandole_result came = {};
  if (api->get_result(which.handle, &came, &reason) != FARANDOLE_OK)
    return refused(reason, which.name);
  if (!fits(call, which, came))
    return misfit(which, came);
  if (came.byte_count != 0)
    std::memcpy(which.output.data, came.bytes, came.byte_count);
  return std::nullopt;
}

/// For a call whose members have all settled: copies the results to XLA's buffers. Returns the error of the first
/// member that failed.
std::optional<failure> take_results(const call& call) {
  std::optional<failure> problem;
  for (const auto& member : call.members) {
    auto failed = take_result(call, member);
    if (failed && !problem)
      problem = std::move(failed);
    api->release(member.handle);
  }
  return problem;
}

void settle_one(void* context) {
  if (static_cast<call*>(context)->unsettled.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  std::unique_ptr<call> request_call(static_cast<call*>(context));
  // XLA frees the buffers that the members point to once the future is completed, so all use of them ends before.
  const auto problem = take_results(*request_call);
  const auto& functions = *request_call->functions;
  auto* pending = request_call->pending;
  request_call.reset();
  if (problem) {
    xla::future_error_args args = {sizeof(args), nullptr, pending, as_error(functions, *problem)};
    functions.future_set_error(&args);
  } else {
    xla::future_available_args args = {sizeof(args), nullptr, pending};
    functions.future_set_available(&args);
  }
}

/// A waiting thread settles small tensors on the fast path at once, while the event loop checks operations with a
/// callback at growing intervals of up to a millisecond. So the handler waits for small tensors, but no longer.
bool settles_at_once(const call& call) {
  constexpr std::size_t small_bytes = std::size_t{64} << 10;
  std::size_t bytes = 0;
  for (const auto& member_info : call.members)
    bytes += member_info.bytes(member_info.input);
  if (bytes > small_bytes)
    return false;
  // The last one tends to end last.
  const auto settled_within = [](const member& member_info, std::int64_t wait_ms) {
    return api->wait(member_info.handle, wait_ms, nullptr) != FARANDOLE_TIMED_OUT;
  };
  return settled_within(call.members.back(), 1) &&
         std::all_of(call.members.begin(), call.members.end() - 1,
                     [&](const member& member_info) { return settled_within(member_info, 0); });
}

xla::error* answered(const xla::api& functions, const std::optional<failure>& problem) {
  return problem ? as_error(functions, *problem) : nullptr;
}

/// For an XLA without futures: its thread waits.
xla::error* wait_for(const call& call) {
  for (const auto& member : call.members)
    api->wait(member.handle, -1, nullptr);
  return answered(*call.functions, take_results(call));
}

xla::error* give_future(std::unique_ptr<call> request_call, xla::call_frame& frame) {
  const auto& functions = *request_call->functions;
  xla::future_create_args made = {sizeof(made), nullptr, nullptr};
  if (auto* problem = functions.future_create(&made)) {
    for (const auto& member : request_call->members)
      api->wait(member.handle, -1, nullptr);
    take_results(*request_call);
    return problem;
  }
  frame.pending = request_call->pending = made.made;
  // One more than the number of members, so that the call lives until all of them have their callback.
  request_call->unsettled = request_call->members.size() + 1;
  auto* shared = request_call.release();
  for (const auto& member : shared->members)
    api->on_settled(member.handle, &settle_one, shared, nullptr);
  settle_one(shared);
  return nullptr;
}

xla::error* run(xla::call_frame& frame) {
  const auto& functions = *frame.functions;
  if (!api)
    return as_error(functions, {xla::error_code::failed_precondition, "import farandole.jax first"});
  auto started_call = std::make_unique<call>();
  started_call->functions = &functions;
  std::string name;
  auto problem = read_settings(frame.settings, *started_call, name);
  if (!problem)
    problem = read_tensors(frame, name, *started_call);
  if (!problem)
    problem = submit(*started_call);
  if (problem)
    return as_error(functions, *problem);
  if (xla::offers_futures(functions) && !settles_at_once(*started_call))
    return give_future(std::move(started_call), frame);
  return wait_for(*started_call);
}

/// Answers XLA's question for which version of its interface the handler was built. The part that we use is the same
/// in all versions up to the one that we know, so an older XLA is told its own version.
bool tells_version(const xla::call_frame& frame) {
  constexpr int metadata_type = 1;
  if (!frame.extensions || frame.extensions->type != metadata_type)
    return false;
  auto& wanted = *reinterpret_cast<xla::metadata_extension*>(frame.extensions)->wanted;
  wanted.built_for.major = xla::known_major;
  wanted.built_for.minor = xla::known_minor;
  if (frame.functions && frame.functions->offered.major == xla::known_major)
    wanted.built_for.minor = std::min(xla::known_minor, frame.functions->offered.minor);
  wanted.traits = 0;
  return true;
}

} // namespace
} // namespace farandole::kernels

extern "C" {

int farandole_connect(const farandole_kernel_api* table) {
  if (table->version != FARANDOLE_KERNEL_API_VERSION)
    return 0;
  farandole::kernels::api = table;
  return 1;
}

farandole::kernels::xla::error* farandole_jax_collective(farandole::kernels::xla::call_frame* frame) {
  return farandole::kernels::tells_version(*frame) ? nullptr : farandole::kernels::run(*frame);
}
}
