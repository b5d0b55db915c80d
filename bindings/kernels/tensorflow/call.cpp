#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "bindings/kernels/tensorflow/completion.hpp"
#include "bindings/kernels/tensorflow/kernel.hpp"
#include "bindings/kernels/tensorflow/step.hpp"
#include "bindings/kernels/tensorflow/waiter.hpp"
#include "bindings/kernels/unsupported_dtype.hpp"

namespace farandole::tensorflow {
namespace {

struct handle_releaser {
  void operator()(farandole_handle* handle) const { api()->release(handle); }
};
using handle = std::unique_ptr<farandole_handle, handle_releaser>;

struct tensor_deleter {
  void operator()(TF_Tensor* tensor) const { tf().TF_DeleteTensor(tensor); }
};
using tensor = std::unique_ptr<TF_Tensor, tensor_deleter>;

/// tensorflow/c/tf_datatype.h, TF_DataType.
constexpr int type_int32 = 3;
constexpr int type_bool = 10;

std::optional<farandole_dtype> dtype_of(int tensorflow_type) {
  switch (tensorflow_type) {
  case 1:
    return FARANDOLE_FLOAT32;
  case 2:
    return FARANDOLE_FLOAT64;
  case type_int32:
    return FARANDOLE_INT32;
  case 4:
    return FARANDOLE_UINT8;
  case 5:
    return FARANDOLE_INT16;
  case 6:
    return FARANDOLE_INT8;
  case 9:
    return FARANDOLE_INT64;
  case type_bool:
    return FARANDOLE_BOOL;
  case 14:
    return FARANDOLE_BFLOAT16;
  case 17:
    return FARANDOLE_UINT16;
  case 19:
    return FARANDOLE_FLOAT16;
  default:
    return std::nullopt;
  }
}

/// One run of a node. From begin() on, it owns itself until the operation has settled and TensorFlow has been told.
class call final : public waiting, public in_flight {
public:
  call(const kernel& node, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done)
      : node_(node), context_(context), step_(tf().TF_StepId(context)), done_(done) {}

  void begin() {
    if (!describe() || !submit()) {
      end();
      return;
    }
    if (node_.blocking) {
      for (const auto& handle : handles_)
        api()->wait(handle.get(), -1, nullptr);
      conclude();
      return;
    }
    await();
  }

  bool settles_within(int milliseconds) override {
    return std::all_of(handles_.begin(), handles_.end(), [&](const handle& handle) {
      farandole_error reason;
      const auto outcome = api()->wait(handle.get(), milliseconds, &reason);
      return outcome != FARANDOLE_TIMED_OUT;
    });
  }

  void leave_to_runtime() override {
    // One more than the number of handles, so that no callback concludes the call before all callbacks are set.
    left_.store(handles_.size() + 1, std::memory_order_relaxed);
    for (const auto& handle : handles_)
      if (api()->on_settled(handle.get(), &settled, this, nullptr) != FARANDOLE_OK)
        settled(this);
    settled(this);
  }

  void conclude() override {
    if (!node_.blocking && !leave_step(step_, this)) {
      drop();
      return;
    }
    if (others_have_slices()) {
      if (submit_against_slices())
        await();
      else
        end();
      return;
    }
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      farandole_error reason;
      const auto outcome = api()->wait(handles_[i].get(), 0, &reason);
      if (outcome != FARANDOLE_OK ? !refuse(reason) : !give_result(i))
        break;
    }
    end();
  }

  void hold() override { hands_.fetch_add(1, std::memory_order_relaxed); }

  /// The tensors stay until the operation has settled. The operation is cancelled, if the other ranks do not rely
  /// on it yet. TensorFlow is told when it has settled, so that the next step can use its names.
  void give_up() override {
    farandole_error reason{FARANDOLE_ABORTED, "another operation of the same step has failed"};
    refuse(reason);
    wait_elsewhere(new errand(*this));
  }

  /// Called on another thread after give_up(): cancels the operations, and drops the reference of the failed step.
  void take_back() {
    for (const auto& handle : handles_)
      api()->cancel(handle.get());
    drop();
  }

  /// For a process that has loaded this library without the Python package.
  void refuse_unconnected() {
    farandole_error reason{FARANDOLE_PRECONDITION, "import farandole.tensorflow, and call init() first"};
    refuse(reason);
    end();
  }

private:
  /// Calls take_back() on another thread: the runtime may be calling back about another operation on this one.
  class errand final : public waiting {
  public:
    explicit errand(call& call) : request_call_(call) {}
    bool settles_within(int) override { return true; }
    void conclude() override {
      request_call_.take_back();
      delete this;
    }
    void leave_to_runtime() override { conclude(); }

  private:
    call& request_call_;
  };

  /// Waits for the submitted operations without blocking a thread of TensorFlow.
  void await() {
    if (!enter_step(step_, this)) {
      hold();
      leave_to_runtime();
      give_up();
    } else if (!is_waited_for())
      leave_to_runtime();
    else if (settles_within(0)) // the last rank to arrive finds the tensors of all others
      conclude();
    else
      wait_elsewhere(this);
  }

  /// Whether the other ranks have gathered the indices of tf.IndexedSlices, and this rank lacks the gradient. Its graph
  /// cannot take slices, so the step must fail on all ranks.
  bool others_have_slices() const {
    return node_.of.absent && api()->wait(handles_.front().get(), 0, nullptr) == FARANDOLE_OK &&
           api()->absent_result(handles_.front().get()) == FARANDOLE_ROWS;
  }

  /// Requests an allreduce under the name of the values, which the other ranks gather: a mismatch, which fails on all
  /// ranks.
  bool submit_against_slices() {
    values_name_ = node_.names.front() + ".values";
    auto& submission = submissions_.front();
    submission.name = values_name_.c_str();
    farandole_handle* made = nullptr;
    farandole_error reason;
    if (api()->submit(&submission, 1, &made, &reason) != FARANDOLE_OK)
      return refuse(reason);
    handles_.front().reset(made);
    return true;
  }

  /// Whether a thread waits for the call, and runs the collective meanwhile. That thread handles one call after
  /// another, so larger tensors are left to the runtime, which fuses them and moves them beside the computation.
  bool is_waited_for() const {
    constexpr std::size_t most_bytes = std::size_t{4} << 20;
    std::size_t bytes = 0;
    for (std::size_t at = 0; at < inputs_.size(); ++at)
      if (const auto* given = (inputs_[at] ? inputs_[at] : outputs_[at]).get())
        bytes += tf().TF_TensorByteSize(given);
    return has_tensors() && bytes <= most_bytes;
  }

  bool has_tensors() const {
    return node_.of.operation != FARANDOLE_JOIN && node_.of.operation != FARANDOLE_BARRIER;
  }

  bool writes_in_shape() const {
    return node_.of.operation == FARANDOLE_ALLREDUCE || node_.of.operation == FARANDOLE_BROADCAST;
  }

  bool describe() {
    const auto count = node_.names.size();
    submissions_.resize(count);
    shapes_.resize(count);
    inputs_.resize(count);
    outputs_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      auto& submission = submissions_[i] = FARANDOLE_SUBMISSION_INIT;
      submission.name = node_.names[i].c_str();
      submission.operation = node_.of.operation;
      submission.set = node_.set;
      if (has_tensors() && !describe_tensor(submission, i))
        return false;
    }
    if (node_.blocking || is_waited_for())
      for (auto& submission : submissions_)
        submission.completion_mode = FARANDOLE_COMPLETION_WAIT;
    return node_.of.operation != FARANDOLE_ALLTOALL || describe_splits(submissions_.front());
  }

  bool describe_tensor(farandole_submission& submission, std::size_t i) {
    const int index = static_cast<int>(i);
    if (!take_input(index))
      return false;
    const auto type = dtype_of(tf().TF_TensorType(inputs_[i].get()));
    if (!type)
      return refuse(kernels::unsupported_dtype_refusal(
          node_.of.operation,
          "TensorFlow's type number " + std::to_string(tf().TF_TensorType(inputs_[i].get()))));
    auto& shape = shapes_[i];
    shape.resize(static_cast<std::size_t>(tf().TF_NumDims(inputs_[i].get())));
    for (std::size_t at = 0; at < shape.size(); ++at)
      shape[at] = tf().TF_Dim(inputs_[i].get(), static_cast<int>(at));
    if (node_.of.operation == FARANDOLE_REDUCESCATTER && shape.empty())
      return refuse("a scalar has no rows that could be dealt out");
    if (writes_in_shape() && !take_output(index))
      return false;
    submission.dtype = *type;
    submission.reduce_op = node_.reduce_op;
    submission.root = node_.root;
    submission.prescale = node_.prescale;
    submission.postscale = node_.postscale;
    submission.shape = shape.data();
    submission.dimensions = shape.size();
    submission.input = tf().TF_TensorData((inputs_[i] ? inputs_[i] : outputs_[i]).get());
    submission.output = outputs_[i] ? tf().TF_TensorData(outputs_[i].get()) : nullptr;
    return true;
  }

  bool take_input(int index) {
    status problem;
    TF_Tensor* input = nullptr;
    tf().TF_GetInput(context_, index, &input, problem.get());
    inputs_[static_cast<std::size_t>(index)].reset(input);
    return problem.ok() || refuse(problem);
  }

  /// Allocates the output in the input's memory if there is no other reference to it. So the call must drop its own
  /// reference to the input first.
  bool take_output(int index) {
    const auto i = static_cast<std::size_t>(index);
    const int dimensions = static_cast<int>(shapes_[i].size());
    inputs_[i].reset();
    int taken = -1;
    status problem;
    outputs_[i].reset(tf().TF_ForwardInputOrAllocateOutput(context_, &index, 1, index, shapes_[i].data(),
                                                           dimensions, &taken, problem.get()));
    if (!problem.ok())
      return refuse(problem);
    return taken == index || take_input(index);
  }

  bool describe_splits(farandole_submission& submission) {
    status problem;
    TF_Tensor* given = nullptr;
    tf().TF_GetInput(context_, 1, &given, problem.get());
    const tensor splits(given);
    if (!problem.ok())
      return refuse(problem);
    if (tf().TF_NumDims(splits.get()) != 1)
      return refuse("splits has " + std::to_string(tf().TF_NumDims(splits.get())) +
                    " dimensions; it must be a vector");
    const auto* rows = static_cast<const std::int32_t*>(tf().TF_TensorData(splits.get()));
    splits_.assign(rows, rows + tf().TF_Dim(splits.get(), 0));
    submission.splits = splits_.data();
    submission.split_count = splits_.size();
    return true;
  }

  bool submit() {
    const auto* runtime = api();
    std::vector<farandole_handle*> handles(submissions_.size());
    farandole_error reason;
    if (node_.of.absent) {
      if (runtime->submit_absent(submissions_.data(), handles.data(), &reason) != FARANDOLE_OK)
        return refuse(reason);
    } else if (runtime->submit(submissions_.data(), submissions_.size(), handles.data(), &reason) !=
               FARANDOLE_OK)
      return refuse(reason);
    for (auto* handle : handles)
      handles_.emplace_back(handle);
    return true;
  }

  static void settled(void* context) {
    auto* self = static_cast<call*>(context);
    if (self->left_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      self->conclude();
  }

  bool give_result(std::size_t i) {
    if (node_.of.absent)
      return give_result_of_absent();
    if (writes_in_shape() || node_.of.operation == FARANDOLE_BARRIER)
      return true; // the result is in the outputs already
    farandole_result result;
    farandole_error reason;
    if (api()->get_result(handles_[i].get(), &result, &reason) != FARANDOLE_OK)
      return refuse(reason);
    if (node_.of.operation == FARANDOLE_JOIN)
      return give_numbers(0, {}, {result.last_rank});
    if (node_.of.operation == FARANDOLE_ALLTOALL) {
      const auto* const end = result.first_dims + result.first_dim_count;
      constexpr auto most = std::numeric_limits<std::int32_t>::max();
      if (std::any_of(result.first_dims, end, [](std::int64_t count) { return count > most; }))
        return refuse("more than " + std::to_string(most) +
                      " rows came from one rank, and received_splits is int32; send fewer rows at once");
      std::vector<std::int32_t> rows(result.first_dims, end);
      if (!give_numbers(1, {static_cast<std::int64_t>(rows.size())}, rows))
        return false;
    }
    return give_memory(i, result);
  }

  bool give_result_of_absent() {
    const auto found = api()->absent_result(handles_.front().get());
    if (found == FARANDOLE_REDUCED && node_.expects_none)
      return refuse("the gradient is None on this rank, and not on others; pass "
                    "unconnected_gradients=tf.UnconnectedGradients.ZERO to gradient() on all ranks");
    if (found == FARANDOLE_NOTHING && inputs_.front())
      std::memcpy(tf().TF_TensorData(outputs_.front().get()), tf().TF_TensorData(inputs_.front().get()),
                  tf().TF_TensorByteSize(outputs_.front().get()));
    status problem;
    const tensor output(
        tf().TF_AllocateOutput(context_, 1, type_bool, nullptr, 0, sizeof(bool), problem.get()));
    if (!problem.ok())
      return refuse(problem);
    *static_cast<bool*>(tf().TF_TensorData(output.get())) = found == FARANDOLE_REDUCED;
    return true;
  }

  bool give_numbers(int index, const std::vector<std::int64_t>& shape,
                    const std::vector<std::int32_t>& numbers) {
    status problem;
    const tensor output(tf().TF_AllocateOutput(context_, index, type_int32, shape.data(),
                                               static_cast<int>(shape.size()),
                                               numbers.size() * sizeof(std::int32_t), problem.get()));
    if (!problem.ok())
      return refuse(problem);
    std::copy(numbers.begin(), numbers.end(), static_cast<std::int32_t*>(tf().TF_TensorData(output.get())));
    return true;
  }

  /// The runtime's own memory becomes the output without a copy: the tensor owns the handle that the memory belongs
  /// to.
  bool give_memory(std::size_t i, const farandole_result& result) {
    auto shape = shapes_[i];
    shape.front() = 0;
    for (std::size_t at = 0; at < result.first_dim_count; ++at)
      shape.front() += result.first_dims[at];
    status problem;
    const int type = tf().TF_TensorType(inputs_[i].get());
    const int dimensions = static_cast<int>(shape.size());
    tensor output;
    if (result.byte_count == 0) {
      output.reset(tf().TF_AllocateOutput(context_, static_cast<int>(i), type, shape.data(), dimensions, 0,
                                          problem.get()));
    } else {
      auto* owner = handles_[i].release();
      output.reset(tf().TF_NewTensor(type, shape.data(), dimensions, const_cast<void*>(result.bytes),
                                     result.byte_count, &release_owner, owner));
      tf().TF_SetOutput(context_, static_cast<int>(i), output.get(), problem.get());
    }
    return problem.ok() || refuse(problem);
  }

  static void release_owner(void*, std::size_t, void* owner) {
    api()->release(static_cast<farandole_handle*>(owner));
  }

  bool refuse(status& problem) {
    failed_ = true;
    tf().TF_OpKernelContext_Failure(context_, problem.get());
    return false;
  }

  bool refuse(const farandole_error& reason) {
    status problem;
    problem.set(code_of(reason.status), text_of(node_.of.type, reason));
    return refuse(problem);
  }

  bool refuse(const std::string& text) {
    farandole_error reason{FARANDOLE_INVALID_ARGUMENT, {}};
    const std::string named = node_.names.front() + ": " + text;
    std::copy_n(named.data(), std::min<std::size_t>(named.size(), FARANDOLE_TEXT_BYTES - 1), reason.text);
    return refuse(reason);
  }

  void end() {
    // Releases everything before TensorFlow is told: afterwards the node, and the job, may be gone. No lock is held
    // here.
    auto done = std::exchange(done_, std::nullopt);
    const auto step = step_;
    const bool step_fails = failed_ && !node_.blocking;
    drop();
    // Reports this failure before fail_step() reports those that follow from it, so that TensorFlow keeps this one.
    done->tell();
    if (step_fails)
      fail_step(step);
  }

  /// The last one to drop a call that was given up tells TensorFlow.
  void drop() {
    if (hands_.fetch_sub(1, std::memory_order_acq_rel) != 1)
      return;
    auto done = std::exchange(done_, std::nullopt);
    delete this;
    if (done)
      done->tell();
  }

  const kernel& node_;
  TF_OpKernelContext* context_;
  const std::int64_t step_;
  bool failed_ = false;
  std::atomic<int> hands_{1};      // references: one until it settles, and one of a failed step
  std::optional<completion> done_; ///< empty once TensorFlow has been or is being told
  std::vector<farandole_submission> submissions_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::string values_name_; // of slices that this rank lacks
  std::vector<std::int64_t> splits_;
  std::vector<tensor> inputs_; // empty if the output has taken its memory
  std::vector<tensor> outputs_;
  std::vector<handle> handles_;
  std::atomic<std::size_t> left_{0};
};

} // namespace

void run(const kernel& node, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
  auto* const run = new call(node, context, done);
  if (api())
    run->begin();
  else
    run->refuse_unconnected();
}

} // namespace farandole::tensorflow
