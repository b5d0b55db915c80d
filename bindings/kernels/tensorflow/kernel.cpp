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

std::string scope_of(const std::string& name) {
  return name.substr(0, name.rfind('/') + 1);
}

std::string without_scope(const std::string& name) {
  return name.substr(name.rfind('/') + 1);
}

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// A node's name without the numbers ("then/_12/") that TensorFlow adds where it replaces a condition by its branches.
/// They count the conditions of the whole graph, of which ranks that lack different gradients have different numbers.
std::string without_numbers(const std::string& name) {
  std::string kept;
  for (const auto& part : parts_of(name, '/'))
    if (part.size() < 2 || part[0] != '_' || part.find_first_not_of("0123456789", 1) != std::string::npos)
      kept += (kept.empty() ? "" : "/") + part;
  return kept;
}

/// The names of a node's tensors in the runtime: the node's name, unless the node has a `tensor_name`. The tensors
/// of a group get one line of `tensor_name` each, in the scope of the node, or a number. So a tensor has the same name
/// in a group as in a node of its own in that scope.
std::vector<std::string> names_of(attributes& read, const kind& of) {
  if (of.operation == FARANDOLE_JOIN)
    return {"join.noname"};
  if (of.operation == FARANDOLE_BARRIER)
    return {"barrier.noname"};
  const std::string node = without_numbers(read.node_name());
  std::string name = read.text("tensor_name");
  if (name.empty())
    name = node;
  const bool ignores_scope = read.flag("ignore_name_scope");
  if (!of.grouped)
    return {ignores_scope ? without_scope(name) : name};
  const auto lines = parts_of(name, '\n');
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(read.integer("num_tensors"), 1));
  const bool names_each = lines.size() == count && count > 1;
  std::vector<std::string> members;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string own = names_each ? scope_of(node) + lines[i] : lines.front();
    members.push_back(ignores_scope ? without_scope(own) : own);
    if (!names_each)
      members.back() += "_" + std::to_string(i + 1) + "of" + std::to_string(count);
  }
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
