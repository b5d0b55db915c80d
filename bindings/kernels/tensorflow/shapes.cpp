#include "bindings/kernels/tensorflow/shapes.hpp"

#include <cstdint>
#include <limits>

namespace farandole::tensorflow {
namespace {

constexpr auto unknown_extent = static_cast<std::size_t>(-1);
constexpr auto to_the_end = std::numeric_limits<std::int64_t>::max();

/// Owns a shape handle.
class shape {
public:
  explicit shape(TF_ShapeHandle* held = tf().TF_NewShapeHandle()) : held_(held) {}
  shape(const shape&) = delete;
  shape& operator=(const shape&) = delete;
  ~shape() { tf().TF_DeleteShapeHandle(held_); }
  TF_ShapeHandle* get() const { return held_; }

private:
  TF_ShapeHandle* held_;
};

bool is_good(TF_Status* problem) {
  return tf().TF_GetCode(problem) == code_ok;
}

/// TensorFlow 2.15 can set the shape of the first output only. A shape that it refuses stays unknown to the graph,
/// and Python knows it anyway.
bool set_output(TF_ShapeInferenceContext* context, int index, const shape& dimensions, TF_Status* problem) {
  tf().TF_ShapeInferenceContextSetOutput(context, index, dimensions.get(), problem);
  if (is_good(problem))
    return true;
  tf().TF_SetStatus(problem, code_ok, "");
  tf().TF_ShapeInferenceContextSetUnknownShape(context, problem);
  return false;
}

bool set_rows(TF_ShapeInferenceContext* context, int index, const shape& input, TF_Status* problem) {
  const shape tail;
  const shape rows;
  const shape first(tf().TF_ShapeInferenceContextVectorFromSize(context, unknown_extent));
  tf().TF_ShapeInferenceContextSubshape(context, input.get(), 1, to_the_end, tail.get(), problem);
  if (is_good(problem))
    tf().TF_ShapeInferenceContextConcatenateShapes(context, first.get(), tail.get(), rows.get(), problem);
  return is_good(problem) && set_output(context, index, rows, problem);
}

void shape_of_gathered(TF_ShapeInferenceContext* context, int count, bool refuse_scalars,
                       TF_Status* problem) {
  for (int i = 0; i < count; ++i) {
    const shape input;
    tf().TF_ShapeInferenceContextGetInput(context, i, input.get(), problem);
    if (!is_good(problem))
      return;
    const bool present = tf().TF_ShapeInferenceContextRankKnown(context, input.get()) != 0;
    const bool scalar = present && tf().TF_ShapeInferenceContextRank(context, input.get()) < 1;
    if (scalar && refuse_scalars) {
      tf().TF_SetStatus(problem, code_invalid_argument, "a scalar has no rows that could be dealt out");
      return;
    }
    // Marks all outputs as unknown and stops, because some versions of TensorFlow can set the first output only.
    if (!present || scalar) {
      tf().TF_ShapeInferenceContextSetUnknownShape(context, problem);
      return;
    }
    if (!set_rows(context, i, input, problem))
      return;
  }
}

int inputs_of(TF_ShapeInferenceContext* context) {
  return static_cast<int>(tf().TF_ShapeInferenceContextNumInputs(context));
}

} // namespace

void shape_as_inputs(TF_ShapeInferenceContext* context, TF_Status* problem) {
  for (int i = 0; i < inputs_of(context); ++i) {
    const shape input;
    tf().TF_ShapeInferenceContextGetInput(context, i, input.get(), problem);
    if (!is_good(problem) || !set_output(context, i, input, problem))
      return;
  }
}

void shape_of_rows(TF_ShapeInferenceContext* context, TF_Status* problem) {
  shape_of_gathered(context, inputs_of(context), false, problem);
}

void shape_of_share(TF_ShapeInferenceContext* context, TF_Status* problem) {
  shape_of_gathered(context, inputs_of(context), true, problem);
}

void shape_of_rows_and_counts(TF_ShapeInferenceContext* context, TF_Status* problem) {
  // The second input is the splits.
  shape_of_gathered(context, 1, false, problem);
  const shape counts(tf().TF_ShapeInferenceContextVectorFromSize(context, unknown_extent));
  if (is_good(problem))
    set_output(context, 1, counts, problem);
}

void shape_as_input_and_number(TF_ShapeInferenceContext* context, TF_Status* problem) {
  shape_as_inputs(context, problem);
  const shape scalar(tf().TF_ShapeInferenceContextScalar(context));
  if (is_good(problem))
    set_output(context, 1, scalar, problem);
}

void shape_of_number(TF_ShapeInferenceContext* context, TF_Status* problem) {
  const shape scalar(tf().TF_ShapeInferenceContextScalar(context));
  set_output(context, 0, scalar, problem);
}

void shape_of_nothing(TF_ShapeInferenceContext*, TF_Status*) {}

} // namespace farandole::tensorflow
