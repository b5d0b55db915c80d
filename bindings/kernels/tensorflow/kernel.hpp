/// The attributes of one node of a graph, and the call that is made each time the node runs.
///
/// A node's attributes are read once, when TensorFlow makes its kernel. A call takes the node's inputs, submits
/// them to the runtime and returns. When the operation has settled, on one of the runtime's threads, its results
/// become the node's outputs and TensorFlow is told. A call blocks no thread unless the node is `blocking`: the
/// caller of such a node waits anyway, as for calls outside of graphs, so the call waits on the same thread, which
/// saves a switch to another one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/kernels/tensorflow/api.hpp"
#include <farandole/kernel_api.h>

namespace farandole::tensorflow {

/// One kind of node that does a collective operation.
struct kind {
  const char* type; // as graphs name it: "HorovodAllreduce"
  farandole_operation operation;
  bool grouped;
  bool absent = false; // this rank contributes nothing, and learns whether others do
};

/// A node's attributes.
struct kernel {
  const kind& of;
  std::vector<std::string> names; // of its tensors in the runtime; at least one
  std::int32_t reduce_op = FARANDOLE_SUM;
  std::int32_t root = -1;
  double prescale = 1.0;
  double postscale = 1.0;
  std::uint32_t set = 0;
  bool blocking = false;
  bool expects_none = false; // absent: a contribution of another rank is an error
};

/// Reads a node's attributes. If they are wrong, reports the reason to TensorFlow and returns null.
kernel* make_kernel(const kind& of, TF_OpKernelConstruction* node);

/// Runs the node once; `done` is called when its outputs are there, or it has failed.
void run(const kernel& node, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done);

/// The table of functions of the runtime; null before the Python module has set it.
const farandole_kernel_api* api();
void set_api(const farandole_kernel_api* given);

/// The TF_Code of a status of the runtime, by the table of the interface.
int code_of(farandole_status status);

/// The text for users: the kind of node and of failure, then the runtime's own words. Python recognises from its
/// beginning that this is a failure of Farandole, and how to handle it.
std::string text_of(const char* type, const farandole_error& reason);

} // namespace farandole::tensorflow
