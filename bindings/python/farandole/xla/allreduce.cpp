// HorovodAllreduce inside of programs that XLA compiles for the CPU. XLA's C++ interface has no stable form,
// so this file is compiled on the user's machine, against the TensorFlow that is installed there (farandole
// build-xla).
//
// A compiled program runs its custom calls one after another, in an order that is part of the program, so the
// call waits. All ranks compile the same program: they wait for the same tensors in the same order.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <tensorflow/compiler/tf2xla/xla_op_kernel.h>
#include <tensorflow/compiler/tf2xla/xla_op_registry.h>
#include <xla/ffi/api/c_api.h>
#include <xla/ffi/api/ffi.h>
#include <xla/hlo/builder/xla_builder.h>

#include <farandole/kernel_api.h>

namespace xla::ffi {
const XLA_FFI_Api* GetXlaFfiApi();
}

namespace farandole {
namespace {

namespace ffi = xla::ffi;

constexpr char target[] = "farandole_allreduce";

std::atomic<const farandole_kernel_api*> api{nullptr};

/// Quotes a string in MLIR syntax.
std::string written_for_mlir(const std::string& text) {
  std::string written = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\')
      written += '\\';
    written += character;
  }
  return written + "\"";
}

class allreduce_op : public tensorflow::XlaOpKernel {
public:
  explicit allreduce_op(tensorflow::OpKernelConstruction* node) : XlaOpKernel(node) {
    OP_REQUIRES_OK(node, node->GetAttr("reduce_op", &reduce_op_));
    OP_REQUIRES_OK(node, node->GetAttr("prescale_factor", &prescale_));
    OP_REQUIRES_OK(node, node->GetAttr("postscale_factor", &postscale_));
    OP_REQUIRES_OK(node, node->GetAttr("process_set_id", &set_));
    OP_REQUIRES_OK(node, node->GetAttr("tensor_name", &tensor_name_));
    bool ignore_scope = false;
    OP_REQUIRES_OK(node, node->GetAttr("ignore_name_scope", &ignore_scope));
    OP_REQUIRES(
        node, set_ >= 0,
        tensorflow::errors::InvalidArgument(
            "the process set is not registered: pass it to init(), or add it with add_process_set()"));
    if (tensor_name_.empty())
      tensor_name_ = name();
    if (ignore_scope)
      tensor_name_.erase(0, tensor_name_.rfind('/') + 1);
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    const auto shape = context->InputXlaShape(0);
    OP_REQUIRES_OK(context, shape.status());
    // Bits, since decimal fractions are not exact.
    const auto bits = [](float value) {
      std::int32_t same;
      std::memcpy(&same, &value, sizeof same);
      return std::to_string(same) + " : i32";
    };
    const std::string config = "{name = " + written_for_mlir(tensor_name_) +
                               ", prescale = " + bits(prescale_) + ", postscale = " + bits(postscale_) +
                               ", reduce_op = " + std::to_string(reduce_op_) +
                               " : i32, set = " + std::to_string(set_) + " : i32}";
    context->SetOutput(0, xla::CustomCall(context->builder(), target, {context->Input(0)}, *shape, config,
                                          /*has_side_effect=*/true, {}, nullptr,
                                          xla::CustomCallSchedule::SCHEDULE_NONE,
                                          xla::CustomCallApiVersion::API_VERSION_TYPED_FFI));
  }

private:
  std::int64_t reduce_op_ = 0;
  std::int64_t set_ = 0;
  float prescale_ = 1;
  float postscale_ = 1;
  std::string tensor_name_;
};

REGISTER_XLA_OP(Name("HorovodAllreduce"), allreduce_op);

/// Cannot be compiled: ranks that lack different gradients compile different programs, whose custom calls may wait for
/// each other in different orders.
class absent_allreduce_op : public tensorflow::XlaOpKernel {
public:
  explicit absent_allreduce_op(tensorflow::OpKernelConstruction* node) : XlaOpKernel(node) {}

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    context->CtxFailure(tensorflow::errors::Unimplemented(
        "HorovodAbsentAllreduce (unimplemented): " + name() +
        ": the gradient is None on this rank, and XLA cannot compile a function in which ranks may lack "
        "different gradients; leave variables out that no rank uses, or pass jit_compile=False"));
  }
};

REGISTER_XLA_OP(Name("HorovodAbsentAllreduce"), absent_allreduce_op);

int dtype_of(ffi::DataType type) {
  switch (type) {
  case ffi::DataType::U8:
    return FARANDOLE_UINT8;
  case ffi::DataType::S8:
    return FARANDOLE_INT8;
  case ffi::DataType::U16:
    return FARANDOLE_UINT16;
  case ffi::DataType::S16:
    return FARANDOLE_INT16;
  case ffi::DataType::S32:
    return FARANDOLE_INT32;
  case ffi::DataType::S64:
    return FARANDOLE_INT64;
  case ffi::DataType::F16:
    return FARANDOLE_FLOAT16;
  case ffi::DataType::BF16:
    return FARANDOLE_BFLOAT16;
  case ffi::DataType::F32:
    return FARANDOLE_FLOAT32;
  case ffi::DataType::F64:
    return FARANDOLE_FLOAT64;
  default:
    return -1;
  }
}

/// Same wording as in the kernels for TensorFlow.
ffi::Error failed(const farandole_error& reason) {
  const auto* table = api.load(std::memory_order_acquire);
  const char* kind = table ? table->kind_of(reason.status) : "precondition";
  const std::string text = std::string("HorovodAllreduce (") + kind + "): " + reason.text;
  switch (reason.status) {
  case FARANDOLE_PRECONDITION:
  case FARANDOLE_MISMATCH:
    return ffi::Error(ffi::ErrorCode::kFailedPrecondition, text);
  case FARANDOLE_INVALID_ARGUMENT:
    return ffi::Error(ffi::ErrorCode::kInvalidArgument, text);
  case FARANDOLE_ABORTED:
    return ffi::Error(ffi::ErrorCode::kAborted, text);
  default:
    return ffi::Error(ffi::ErrorCode::kUnknown, text);
  }
}

float number_of(std::int32_t bits) {
  float same;
  std::memcpy(&same, &bits, sizeof same);
  return same;
}

ffi::Error allreduce(ffi::AnyBuffer input, ffi::Result<ffi::AnyBuffer> output, std::string_view name,
                     std::int32_t postscale, std::int32_t prescale, std::int32_t reduce_op,
                     std::int32_t set) {
  const auto* table = api.load(std::memory_order_acquire);
  farandole_error reason{FARANDOLE_PRECONDITION, "import farandole.tensorflow, and call init() first"};
  if (!table)
    return failed(reason);
  const std::string own_name(name);
  const auto extents = input.dimensions();
  const std::vector<std::int64_t> shape(extents.begin(), extents.end());
  farandole_submission request = FARANDOLE_SUBMISSION_INIT;
  request.name = own_name.c_str();
  request.operation = FARANDOLE_ALLREDUCE;
  request.dtype = dtype_of(input.element_type());
  request.reduce_op = reduce_op;
  request.prescale = number_of(prescale);
  request.postscale = number_of(postscale);
  request.shape = shape.data();
  request.dimensions = shape.size();
  request.input = input.untyped_data();
  request.output = output->untyped_data();
  request.set = static_cast<std::uint32_t>(set);
  farandole_handle* handle = nullptr;
  if (table->submit(&request, 1, &handle, &reason) != FARANDOLE_OK)
    return failed(reason);
  const auto ended = table->wait(handle, -1, &reason);
  table->release(handle);
  return ended == FARANDOLE_OK ? ffi::Error::Success() : failed(reason);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(farandole_xla_allreduce, allreduce,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<std::string_view>("name")
                                  .Attr<std::int32_t>("postscale")
                                  .Attr<std::int32_t>("prescale")
                                  .Attr<std::int32_t>("reduce_op")
                                  .Attr<std::int32_t>("set"));
XLA_FFI_REGISTER_HANDLER(xla::ffi::GetXlaFfiApi(), target, "Host", farandole_xla_allreduce);

} // namespace
} // namespace farandole

extern "C" __attribute__((visibility("default"))) int farandole_connect(const farandole_kernel_api* table) {
  if (table->version != FARANDOLE_KERNEL_API_VERSION)
    return 0;
  farandole::api.store(table, std::memory_order_release);
  return 1;
}
