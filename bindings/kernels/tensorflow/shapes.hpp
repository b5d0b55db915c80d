/// Shape inference: the shapes of results that graphs know before any node runs.
#pragma once

#include "bindings/kernels/tensorflow/api.hpp"

namespace farandole::tensorflow {

void shape_as_inputs(TF_ShapeInferenceContext* context, TF_Status* problem);
/// The extents of each input, except the first one, which is unknown.
void shape_of_rows(TF_ShapeInferenceContext* context, TF_Status* problem);
/// As shape_of_rows(), but refuses a scalar.
void shape_of_share(TF_ShapeInferenceContext* context, TF_Status* problem);
/// The rows, and the number of rows that came from each rank.
void shape_of_rows_and_counts(TF_ShapeInferenceContext* context, TF_Status* problem);
/// The input's, and a scalar.
void shape_as_input_and_number(TF_ShapeInferenceContext* context, TF_Status* problem);
void shape_of_number(TF_ShapeInferenceContext* context, TF_Status* problem);
void shape_of_nothing(TF_ShapeInferenceContext* context, TF_Status* problem);

} // namespace farandole::tensorflow
