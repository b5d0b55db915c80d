#include "bindings/kernels/tensorflow/place.hpp"

#include "bindings/kernels/tensorflow/kernel.hpp"

namespace farandole::tensorflow {
namespace {

constexpr int type_int32 = 3;

struct answerer {
  const question& of;
  std::int64_t set = 0;
};

bool ask(const answerer& from, std::int32_t& number, status& problem) {
  farandole_error reason{FARANDOLE_PRECONDITION, "import farandole.tensorflow, and call init() first"};
  if (from.set < 0)
    reason = {FARANDOLE_INVALID_ARGUMENT, "the process set is not registered"};
  else if (api() &&
           api()->ask(from.of.value, static_cast<std::uint32_t>(from.set), &number, &reason) == FARANDOLE_OK)
    return true;
  problem.set(code_of(reason.status), text_of(from.of.type, reason));
  return false;
}

} // namespace

void* make_answerer(const question& of, TF_OpKernelConstruction* node) {
  auto* made = new answerer{of};
  status problem;
  if (of.of_a_set)
    tf().TF_OpKernelConstruction_GetAttrInt64(node, "process_set_id", &made->set, problem.get());
  if (!problem.ok())
    tf().TF_OpKernelConstruction_Failure(node, problem.get());
  return made;
}

void answer(void* from, TF_OpKernelContext* context) {
  status problem;
  std::int32_t number = 0;
  if (ask(*static_cast<answerer*>(from), number, problem)) {
    TF_Tensor* output =
        tf().TF_AllocateOutput(context, 0, type_int32, nullptr, 0, sizeof number, problem.get());
    if (problem.ok()) {
      *static_cast<std::int32_t*>(tf().TF_TensorData(output)) = number;
      tf().TF_DeleteTensor(output);
      return;
    }
  }
  tf().TF_OpKernelContext_Failure(context, problem.get());
}

void drop_answerer(void* from) {
  delete static_cast<answerer*>(from);
}

} // namespace farandole::tensorflow
