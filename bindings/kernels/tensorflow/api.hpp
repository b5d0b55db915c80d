/// The part of TensorFlow's C interface that the kernels need, looked up in the process when this library is loaded.
/// The build needs neither TensorFlow's headers nor its libraries, so one binary serves TensorFlow 2.13 and later.
///
/// The declarations mirror tensorflow/c/tf_status.h, tf_tensor.h, kernels.h and ops.h. All structures are opaque.
/// Enumerations are passed as int, their underlying type in that interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace farandole::tensorflow {

struct TF_Status;
struct TF_Tensor;
struct TF_OpDefinitionBuilder;
struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;
struct TF_ShapeHandle;
struct TF_ShapeInferenceContext;

/// tensorflow/c/c_api_macros.h: returned by value.
struct TF_StringView {
  const char* data;
  std::size_t len;
};

using create_function = void* (*)(TF_OpKernelConstruction*);
using compute_function = void (*)(void*, TF_OpKernelContext*);
using compute_async_function = void (*)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*);
using delete_function = void (*)(void*);
using shape_function = void (*)(TF_ShapeInferenceContext*, TF_Status*);
using deallocator = void (*)(void* data, std::size_t length, void* argument);

// X(result, name, arguments)
#define FARANDOLE_TENSORFLOW_FUNCTIONS(X)                                                                    \
  X(TF_Status*, TF_NewStatus, ())                                                                            \
  X(void, TF_DeleteStatus, (TF_Status*))                                                                     \
  X(void, TF_SetStatus, (TF_Status*, int, const char*))                                                      \
  X(int, TF_GetCode, (const TF_Status*))                                                                     \
  X(const char*, TF_Message, (const TF_Status*))                                                             \
  X(TF_Tensor*, TF_NewTensor, (int, const std::int64_t*, int, void*, std::size_t, deallocator, void*))       \
  X(void, TF_DeleteTensor, (TF_Tensor*))                                                                     \
  X(int, TF_TensorType, (const TF_Tensor*))                                                                  \
  X(int, TF_NumDims, (const TF_Tensor*))                                                                     \
  X(std::int64_t, TF_Dim, (const TF_Tensor*, int))                                                           \
  X(std::size_t, TF_TensorByteSize, (const TF_Tensor*))                                                      \
  X(void*, TF_TensorData, (const TF_Tensor*))                                                                \
  X(TF_OpDefinitionBuilder*, TF_NewOpDefinitionBuilder, (const char*))                                       \
  X(void, TF_RegisterOpDefinition, (TF_OpDefinitionBuilder*, TF_Status*))                                    \
  X(void, TF_OpDefinitionBuilderAddAttr, (TF_OpDefinitionBuilder*, const char*))                             \
  X(void, TF_OpDefinitionBuilderAddInput, (TF_OpDefinitionBuilder*, const char*))                            \
  X(void, TF_OpDefinitionBuilderAddOutput, (TF_OpDefinitionBuilder*, const char*))                           \
  X(void, TF_OpDefinitionBuilderSetIsStateful, (TF_OpDefinitionBuilder*, bool))                              \
  X(void, TF_OpDefinitionBuilderSetShapeInferenceFunction, (TF_OpDefinitionBuilder*, shape_function))        \
  X(TF_ShapeHandle*, TF_NewShapeHandle, ())                                                                  \
  X(void, TF_DeleteShapeHandle, (TF_ShapeHandle*))                                                           \
  X(std::int64_t, TF_ShapeInferenceContextNumInputs, (TF_ShapeInferenceContext*))                            \
  X(void, TF_ShapeInferenceContextGetInput, (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))   \
  X(void, TF_ShapeInferenceContextSetOutput, (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))  \
  X(void, TF_ShapeInferenceContextSetUnknownShape, (TF_ShapeInferenceContext*, TF_Status*))                  \
  X(TF_ShapeHandle*, TF_ShapeInferenceContextScalar, (TF_ShapeInferenceContext*))                            \
  X(int, TF_ShapeInferenceContextRankKnown, (TF_ShapeInferenceContext*, TF_ShapeHandle*))                    \
  X(std::int64_t, TF_ShapeInferenceContextRank, (TF_ShapeInferenceContext*, TF_ShapeHandle*))                \
  X(TF_ShapeHandle*, TF_ShapeInferenceContextVectorFromSize, (TF_ShapeInferenceContext*, std::size_t))       \
  X(void, TF_ShapeInferenceContextSubshape,                                                                  \
    (TF_ShapeInferenceContext*, TF_ShapeHandle*, std::int64_t, std::int64_t, TF_ShapeHandle*, TF_Status*))   \
  X(void, TF_ShapeInferenceContextConcatenateShapes,                                                         \
    (TF_ShapeInferenceContext*, TF_ShapeHandle*, TF_ShapeHandle*, TF_ShapeHandle*, TF_Status*))              \
  X(TF_KernelBuilder*, TF_NewKernelBuilder,                                                                  \
    (const char*, const char*, create_function, compute_function, delete_function))                          \
  X(TF_KernelBuilder*, TF_NewAsyncKernelBuilder,                                                             \
    (const char*, const char*, create_function, compute_async_function, delete_function))                    \
  X(void, TF_KernelBuilder_HostMemory, (TF_KernelBuilder*, const char*))                                     \
  X(void, TF_RegisterKernelBuilder, (const char*, TF_KernelBuilder*, TF_Status*))                            \
  X(void, TF_RunAsyncOpKernelDoneCallback, (TF_AsyncOpKernelDoneCallback*))                                  \
  X(void, TF_OpKernelConstruction_GetAttrSize,                                                               \
    (TF_OpKernelConstruction*, const char*, std::int32_t*, std::int32_t*, TF_Status*))                       \
  X(void, TF_OpKernelConstruction_GetAttrString,                                                             \
    (TF_OpKernelConstruction*, const char*, char*, std::size_t, TF_Status*))                                 \
  X(void, TF_OpKernelConstruction_GetAttrInt64,                                                              \
    (TF_OpKernelConstruction*, const char*, std::int64_t*, TF_Status*))                                      \
  X(void, TF_OpKernelConstruction_GetAttrFloat, (TF_OpKernelConstruction*, const char*, float*, TF_Status*)) \
  X(void, TF_OpKernelConstruction_GetAttrBool,                                                               \
    (TF_OpKernelConstruction*, const char*, unsigned char*, TF_Status*))                                     \
  X(void, TF_OpKernelConstruction_Failure, (TF_OpKernelConstruction*, TF_Status*))                           \
  X(TF_StringView, TF_OpKernelConstruction_GetName, (TF_OpKernelConstruction*))                              \
  X(int, TF_NumInputs, (TF_OpKernelContext*))                                                                \
  X(void, TF_GetInput, (TF_OpKernelContext*, int, TF_Tensor**, TF_Status*))                                  \
  X(void, TF_SetOutput, (TF_OpKernelContext*, int, const TF_Tensor*, TF_Status*))                            \
  X(std::int64_t, TF_StepId, (TF_OpKernelContext*))                                                          \
  X(TF_Tensor*, TF_AllocateOutput,                                                                           \
    (TF_OpKernelContext*, int, int, const std::int64_t*, int, std::size_t, TF_Status*))                      \
  X(TF_Tensor*, TF_ForwardInputOrAllocateOutput,                                                             \
    (TF_OpKernelContext*, const int*, int, int, const std::int64_t*, int, int*, TF_Status*))                 \
  X(void, TF_OpKernelContext_Failure, (TF_OpKernelContext*, TF_Status*))

/// The functions, under their own names.
struct api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration cannot have them
#define FARANDOLE_TENSORFLOW_DECLARE(result, name, arguments) result(*name) arguments = nullptr;
  FARANDOLE_TENSORFLOW_FUNCTIONS(FARANDOLE_TENSORFLOW_DECLARE)
#undef FARANDOLE_TENSORFLOW_DECLARE
};

/// The functions of the TensorFlow in this process. Valid once find_api() has returned true.
const api& tf();

/// Looks for TensorFlow in this process. Returns false, with the reason, if it is not loaded or too old.
bool find_api(std::string& problem);

/// tensorflow/c/tf_status.h, TF_Code.
enum code : int {
  code_ok = 0,
  code_unknown = 2,
  code_invalid_argument = 3,
  code_resource_exhausted = 8,
  code_failed_precondition = 9,
  code_aborted = 10,
  code_unimplemented = 12,
};

/// A TF_Status that is freed.
class status {
public:
  status() : held_(tf().TF_NewStatus()) {}
  status(const status&) = delete;
  status& operator=(const status&) = delete;
  ~status() { tf().TF_DeleteStatus(held_); }

  TF_Status* get() { return held_; }
  bool ok() const { return tf().TF_GetCode(held_) == code_ok; }
  void set(int code, const std::string& text) { tf().TF_SetStatus(held_, code, text.c_str()); }

private:
  TF_Status* held_;
};

} // namespace farandole::tensorflow
