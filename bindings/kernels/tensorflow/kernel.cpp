#include "bindings/kernels/tensorflow/kernel.hpp"

#include <atomic>
#include <memory>
#include <string_view>

namespace farandole::tensorflow {
namespace {

std::atomic<const farandole_kernel_api*>& installed_api() {
  static std::atomic<const farandole_kernel_api*> held{nullptr};
  return held;
}

/// Reads attributes one after another. The first error is kept, and later reads do nothing.
class attributes {
public:
  explicit attributes(TF_OpKernelConstruction* node) : node_(node) {}

  std::string text(const char* name) {
    std::int32_t count = 0;
    std::int32_t size = 0;
    if (problem.ok())
      tf().TF_OpKernelConstruction_GetAttrSize(node_, name, &count, &size, problem.get());
    std::string value(problem.ok() && size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
    if (!value.empty())
      tf().TF_OpKernelConstruction_GetAttrString(node_, name, value.data(), value.size(), problem.get());
    return value;
  }

  std::int64_t integer(const char* name) {
    std::int64_t value = 0;
    if (problem.ok())
      tf().TF_OpKernelConstruction_GetAttrInt64(node_, name, &value, problem.get());
    return value;
  }

  double real(const char* name) {
    float value = 0;
    if (problem.ok())
      tf().TF_OpKernelConstruction_GetAttrFloat(node_, name, &value, problem.get());
    return static_cast<double>(value);
  }

  bool flag(const char* name) {
    unsigned char value = 0;
    if (problem.ok())
      tf().TF_OpKernelConstruction_GetAttrBool(node_, name, &value, problem.get());
    return value != 0;
  }

  std::string node_name() {
    const TF_StringView name = tf().TF_OpKernelConstruction_GetName(node_);
    return {name.data, name.len};
  }

  status problem;

private:
  TF_OpKernelConstruction* node_;
};

std::string without_scope(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The names of a node's tensors in the runtime: the node's name, unless the node has a `tensor_name`. The tensors
/// of a group get one line of `tensor_name` each, or a number.
std::vector<std::string> names_of(attributes& read, const kind& of) {
  if (of.operation == FARANDOLE_JOIN)
    return {"join.noname"};
  if (of.operation == FARANDOLE_BARRIER)
    return {"barrier.noname"};
  std::string name = read.text("tensor_name");
  if (name.empty())
    name = read.node_name();
  if (read.flag("ignore_name_scope"))
    name = without_scope(name);
  if (!of.grouped)
    return {name};
  auto lines = lines_of(name);
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(read.integer("num_tensors"), 1));
  if (lines.size() == count && count > 1)
    return lines;
  std::vector<std::string> members;
  for (std::size_t i = 1; i <= count; ++i)
    members.push_back(lines.front() + "_" + std::to_string(i) + "of" + std::to_string(count));
  return members;
}

} // namespace

const farandole_kernel_api* api() {
  return installed_api().load(std::memory_order_acquire);
}

void set_api(const farandole_kernel_api* given) {
  installed_api().store(given, std::memory_order_release);
}

int code_of(farandole_status status) {
  switch (status) {
  case FARANDOLE_OK:
    return code_ok;
  case FARANDOLE_PRECONDITION:
  case FARANDOLE_MISMATCH:
    return code_failed_precondition;
  case FARANDOLE_INVALID_ARGUMENT:
    return code_invalid_argument;
  case FARANDOLE_ABORTED:
    return code_aborted;
  case FARANDOLE_OVERLOADED:
    return code_resource_exhausted;
  case FARANDOLE_UNIMPLEMENTED:
    return code_unimplemented;
  default: // a member was lost, the job was shut down, a deadline has passed
    return code_unknown;
  }
}

std::string text_of(const char* type, const farandole_error& reason) {
  // Without the table, the only possible failure is that init() has not been called.
  const char* kind = api() ? api()->kind_of(reason.status) : "precondition";
  return std::string(type) + " (" + kind + "): " + reason.text;
}

kernel* make_kernel(const kind& of, TF_OpKernelConstruction* node) {
  attributes read(node);
  auto made = std::make_unique<kernel>(kernel{of, names_of(read, of)});
  const bool reduces = of.operation == FARANDOLE_ALLREDUCE || of.operation == FARANDOLE_REDUCESCATTER;
  if (reduces) {
    made->reduce_op = static_cast<std::int32_t>(read.integer("reduce_op"));
    made->prescale = read.real("prescale_factor");
    made->postscale = read.real("postscale_factor");
  }
  if (of.operation == FARANDOLE_BROADCAST)
    made->root = static_cast<std::int32_t>(read.integer("root_rank"));
  made->blocking = read.flag("blocking");
  if (of.absent)
    made->expects_none = read.flag("expects_none");
  const std::int64_t set = of.operation == FARANDOLE_JOIN ? 0 : read.integer("process_set_id");
  if (read.problem.ok() && set < 0) {
    farandole_error reason{
        FARANDOLE_INVALID_ARGUMENT,
        "the process set is not registered: pass it to init(), or add it with add_process_set()"};
    read.problem.set(code_invalid_argument, text_of(of.type, reason));
  }
  made->set = static_cast<std::uint32_t>(set);
  if (read.problem.ok())
    return made.release();
  tf().TF_OpKernelConstruction_Failure(node, read.problem.get());
  return nullptr;
}

} // namespace farandole::tensorflow
