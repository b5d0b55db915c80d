/// What graphs know of the shapes of results before anything runs.
#pragma once

#include "bindings/kernels/tensorflow/api.hpp"

namespace farandole::tensorflow {

void shape_as_inputs(TF_ShapeInferenceContext* context, TF_Status* problem);
/// Of each input all but the first extent.
void shape_of_rows(TF_ShapeInferenceContext* context, TF_Status* problem);
/// The same, and a scalar is refused.
void shape_of_share(TF_ShapeInferenceContext* context, TF_Status* problem);
/// Rows, and how many came from each rank.
void shape_of_rows_and_counts(TF_ShapeInferenceContext* context, TF_Status* problem);
void shape_of_number(TF_ShapeInferenceContext* context, TF_Status* problem);
void shape_of_nothing(TF_ShapeInferenceContext* context, TF_Status* problem);

} // namespace farandole::tensorflow
