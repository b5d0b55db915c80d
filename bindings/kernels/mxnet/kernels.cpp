// The functions that Python calls by name. Every function returns 1 for success; after a 0, farandole_mxnet_problem()
// on the same thread returns the error.
#include <memory>
#include <optional>
#include <string>

#include "bindings/kernels/mxnet/operation.hpp"

namespace {

using farandole::mxnet::array;
using farandole::mxnet::library;
using farandole::mxnet::operation;

/// Both are set before the first operation and never change afterwards.
const farandole_kernel_api* api = nullptr;
std::optional<library> mxnet;

thread_local std::string problem;

} // namespace

extern "C" {

__attribute__((visibility("default"))) int farandole_connect(const farandole_kernel_api* given) {
  if (given->version != FARANDOLE_KERNEL_API_VERSION)
    return 0;
  api = given;
  return 1;
}

/* Takes the functions of the libmxnet that was loaded from this file. */
__attribute__((visibility("default"))) int farandole_mxnet_attach(const char* file) {
  if (!mxnet)
    mxnet = library::find(file, problem);
  return mxnet ? 1 : 0;
}

__attribute__((visibility("default"))) const char* farandole_mxnet_problem() {
  return problem.c_str();
}

/* The parameters that all tensors of one call share. */
struct farandole_mxnet_call {
  farandole::mxnet::request request;
  int32_t priority; /* the engine starts operations of a higher one first */
};

/* Pushes one operation of the engine for `count` tensors, which become ready together. `names` holds their names one
 * after another, each with its terminating 0. `outputs` are `inputs` for in-place operations. The caller may free the
 * array handles when the call returns. */
__attribute__((visibility("default"))) int farandole_mxnet_push(const farandole_mxnet_call* call,
                                                                size_t count, const char* names,
                                                                void* const* inputs, void* const* outputs) {
  auto next = std::make_unique<operation>(*mxnet, *api, call->request);
  for (size_t i = 0; i < count; ++i) {
    const std::string name = names;
    names += name.size() + 1;
    if (!next->add(name.c_str(), inputs[i], outputs[i], problem)) {
      problem.insert(0, name + ": ");
      return 0;
    }
  }
  return operation::push(std::move(next), call->priority, problem) ? 1 : 0;
}

/* A new array of the same type and shape on the same device, whose first extent is `rows` unless that is -1.
 * The caller owns the handle; NULL on failure. */
__attribute__((visibility("default"))) void* farandole_mxnet_like(void* which, int64_t rows) {
  const array made = make_like(*mxnet, which, rows);
  if (!made)
    problem = mxnet->problem();
  return made;
}

/* Waits until the engine has no operation of ours left, but at most for `timeout_ms`. Returns 1 if none is left. */
__attribute__((visibility("default"))) int farandole_mxnet_drain(int64_t timeout_ms) {
  return operation::drain(timeout_ms) ? 1 : 0;
}
}
