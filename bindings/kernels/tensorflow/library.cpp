/// The operations that TensorFlow registers when tf.load_op_library() loads this library; that call must be the first
/// to load it. Saved graphs contain the names, inputs, outputs and attributes below, so these never change.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bindings/kernels/tensorflow/kernel.hpp"
#include "bindings/kernels/tensorflow/place.hpp"
#include "bindings/kernels/tensorflow/shapes.hpp"

namespace farandole::tensorflow {
namespace {

/// How one kind of node looks in a graph.
struct definition {
  std::vector<const char*> inputs;
  std::vector<const char*> outputs;
  std::vector<const char*> attributes;
  shape_function shape;
};

constexpr const char* reducible =
    "T: {uint8, int8, uint16, int16, int32, int64, half, bfloat16, float32, float64}";
constexpr const char* movable =
    "T: {uint8, int8, uint16, int16, int32, int64, half, bfloat16, float32, float64, bool}";
constexpr const char* several = "num_tensors: int >= 1";
constexpr const char* reduction = "reduce_op: int";
constexpr const char* prescale = "prescale_factor: float";
constexpr const char* postscale = "postscale_factor: float";
constexpr const char* set = "process_set_id: int = 0";
constexpr const char* scope = "ignore_name_scope: bool = false";
constexpr const char* name = "tensor_name: string = ''";
constexpr const char* blocking = "blocking: bool = false";
constexpr const char* expects_none = "expects_none: bool = false";

constexpr std::array kinds = {
    kind{"HorovodAllreduce", FARANDOLE_ALLREDUCE, false},
    kind{"HorovodAbsentAllreduce", FARANDOLE_ALLREDUCE, false, true},
    kind{"HorovodGroupedAllreduce", FARANDOLE_ALLREDUCE, true},
    kind{"HorovodAllgather", FARANDOLE_ALLGATHER, false},
    kind{"HorovodGroupedAllgather", FARANDOLE_ALLGATHER, true},
    kind{"HorovodBroadcast", FARANDOLE_BROADCAST, false},
    kind{"HorovodAlltoall", FARANDOLE_ALLTOALL, false},
    kind{"HorovodReducescatter", FARANDOLE_REDUCESCATTER, false},
    kind{"HorovodGroupedReducescatter", FARANDOLE_REDUCESCATTER, true},
    kind{"HorovodJoin", FARANDOLE_JOIN, false},
    kind{"HorovodBarrier", FARANDOLE_BARRIER, false},
};

constexpr std::array questions = {
    question{"HorovodSize", FARANDOLE_ASK_SIZE, true},
    question{"HorovodProcessSetIncluded", FARANDOLE_ASK_INCLUDED, true},
    question{"HorovodLocalSize", FARANDOLE_ASK_LOCAL_SIZE, false},
    question{"HorovodRank", FARANDOLE_ASK_RANK, true},
    question{"HorovodLocalRank", FARANDOLE_ASK_LOCAL_RANK, false},
};

definition definition_of(const kind& of) {
  definition made;
  if (of.operation == FARANDOLE_JOIN)
    return {{}, {"output: int32"}, {blocking}, &shape_of_number};
  if (of.operation == FARANDOLE_BARRIER)
    return {{}, {}, {set, blocking}, &shape_of_nothing};
  const bool reduces = of.operation == FARANDOLE_ALLREDUCE || of.operation == FARANDOLE_REDUCESCATTER;
  made.inputs = {of.grouped ? "tensors: num_tensors * T" : "tensor: T"};
  made.outputs = {of.grouped ? "outputs: num_tensors * T" : "output: T"};
  made.attributes = {reduces ? reducible : movable, set, scope, name, blocking};
  if (of.grouped)
    made.attributes.push_back(several);
  if (reduces)
    made.attributes.insert(made.attributes.end(), {reduction, prescale, postscale});
  if (of.operation == FARANDOLE_BROADCAST)
    made.attributes.push_back("root_rank: int");
  made.shape = &shape_as_inputs;
  if (of.absent) {
    made.outputs.push_back("is_reduced: bool");
    made.attributes.push_back(expects_none);
    made.shape = &shape_as_input_and_number;
  }
  if (of.operation == FARANDOLE_ALLGATHER)
    made.shape = &shape_of_rows;
  if (of.operation == FARANDOLE_REDUCESCATTER)
    made.shape = &shape_of_share;
  if (of.operation == FARANDOLE_ALLTOALL) {
    made.inputs.push_back("splits: int32");
    made.outputs.push_back("received_splits: int32");
    made.shape = &shape_of_rows_and_counts;
  }
  return made;
}

void define(const char* type, const definition& as, status& problem) {
  auto* builder = tf().TF_NewOpDefinitionBuilder(type);
  for (const char* attribute : as.attributes)
    tf().TF_OpDefinitionBuilderAddAttr(builder, attribute);
  for (const char* input : as.inputs)
    tf().TF_OpDefinitionBuilderAddInput(builder, input);
  for (const char* output : as.outputs)
    tf().TF_OpDefinitionBuilderAddOutput(builder, output);
  // TensorFlow folds, merges and prunes operations that are not stateful when it optimises graphs.
  tf().TF_OpDefinitionBuilderSetIsStateful(builder, true);
  tf().TF_OpDefinitionBuilderSetShapeInferenceFunction(builder, as.shape);
  tf().TF_RegisterOpDefinition(builder, problem.get());
}

/// The tensors of a GPU are moved through host memory: the C interface gives no access to CUDA's streams.
void offer(TF_KernelBuilder* builder, const char* type, const char* device, const definition& as,
           status& problem) {
  if (std::strcmp(device, "GPU") == 0)
    for (const auto* arguments : {&as.inputs, &as.outputs})
      for (const char* argument : *arguments)
        tf().TF_KernelBuilder_HostMemory(builder, std::string(argument, std::strchr(argument, ':')).c_str());
  tf().TF_RegisterKernelBuilder((std::string(type) + device).c_str(), builder, problem.get());
}

// TensorFlow's functions take no context, so there is one of each for each row of the tables.

template <std::size_t Row>
void* make_kernel_of(TF_OpKernelConstruction* node) {
  return make_kernel(kinds[Row], node);
}

template <std::size_t Row>
void* make_answerer_of(TF_OpKernelConstruction* node) {
  return make_answerer(questions[Row], node);
}

void run_kernel(void* node, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  run(*static_cast<const kernel*>(node), context, done);
}

void drop_kernel(void* node) {
  delete static_cast<kernel*>(node);
}

template <std::size_t Row>
void register_kind(status& problem) {
  const char* type = kinds[Row].type;
  const auto as = definition_of(kinds[Row]);
  if (problem.ok())
    define(type, as, problem);
  for (const char* device : {"CPU", "GPU"})
    if (problem.ok())
      offer(tf().TF_NewAsyncKernelBuilder(type, device, &make_kernel_of<Row>, &run_kernel, &drop_kernel),
            type, device, as, problem);
}

template <std::size_t Row>
void register_question(status& problem) {
  const char* type = questions[Row].type;
  definition as{{}, {"output: int32"}, {}, &shape_of_number};
  if (questions[Row].of_a_set)
    as.attributes.push_back(set);
  if (problem.ok())
    define(type, as, problem);
  for (const char* device : {"CPU", "GPU"})
    if (problem.ok())
      offer(tf().TF_NewKernelBuilder(type, device, &make_answerer_of<Row>, &answer, &drop_answerer), type,
            device, as, problem);
}

template <std::size_t... Rows>
void register_kinds(status& problem, std::index_sequence<Rows...>) {
  (register_kind<Rows>(problem), ...);
}

template <std::size_t... Rows>
void register_questions(status& problem, std::index_sequence<Rows...>) {
  (register_question<Rows>(problem), ...);
}

std::string register_all() {
  std::string reason;
  if (!find_api(reason))
    return reason;
  status problem;
  register_kinds(problem, std::make_index_sequence<kinds.size()>());
  register_questions(problem, std::make_index_sequence<questions.size()>());
  return problem.ok() ? "" : tf().TF_Message(problem.get());
}

/// Why not all operations have been registered; empty if they have. Leaked on purpose: kernels run until the process
/// has ended.
const std::string& reason_of_failure() {
  static const auto* const reason = new std::string(register_all());
  return *reason;
}

/// Initialised while tf.load_op_library() loads this library, which is when TensorFlow looks for new operations.
[[maybe_unused]] const bool registered = reason_of_failure().empty();

} // namespace
} // namespace farandole::tensorflow

extern "C" __attribute__((visibility("default"))) int farandole_connect(const farandole_kernel_api* table) {
  if (table->version != FARANDOLE_KERNEL_API_VERSION)
    return 0;
  farandole::tensorflow::set_api(table);
  return 1;
}

/// Why the operations could not be registered; an empty text if they were.
extern "C" __attribute__((visibility("default"))) const char* farandole_tensorflow_problem() {
  return farandole::tensorflow::reason_of_failure().c_str();
}
