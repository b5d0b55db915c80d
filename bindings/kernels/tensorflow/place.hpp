/// Nodes that return this process' place in the job, such as its rank. They ask when they run, not when the graph is
/// made, so a graph stays right when the members of an elastic job change.
#pragma once

#include "bindings/kernels/tensorflow/api.hpp"
#include <farandole/kernel_api.h>

namespace farandole::tensorflow {

/// One kind of node that asks the runtime for a number.
struct question {
  const char* type; // "HorovodSize"
  farandole_question value;
  bool of_a_set; // has an attribute process_set_id
};

void* make_answerer(const question& of, TF_OpKernelConstruction* node);
void answer(void* answerer, TF_OpKernelContext* context);
void drop_answerer(void* answerer);

} // namespace farandole::tensorflow
