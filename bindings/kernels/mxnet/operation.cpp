#include "bindings/kernels/mxnet/operation.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string_view>

namespace farandole::mxnet {
namespace {

/// mxnet::FnProperty: which thread of the engine runs an operation. kAsync: the thread that pushes it if its
/// arrays are ready by then, else the thread that computes.
constexpr int on_computing_thread = 4;
/// kCPUPrioritized: threads of their own, beside the computation.
constexpr int on_prioritized_thread = 3;

/// Waking a prioritized thread takes about 50 microseconds, twice for each operation when the next
/// computation needs the result. An allreduce of up to so many elements takes no longer than that, so the
/// computing thread runs it. Larger ones overlap with the computation.
constexpr std::int64_t most_computing_thread_elements = std::int64_t{1} << 17;

/// The largest operation that a thread of the engine waits for, and for how long. The wait is short, because ranks
/// may begin operations in different orders.
constexpr std::int64_t most_waited_elements = std::int64_t{1} << 20;
constexpr std::int64_t patience_ms = 1;

/// Whether the engine runs each operation when it is pushed. Such an engine reports no failures.
bool engine_is_naive() {
  const char* asked = std::getenv("MXNET_ENGINE_TYPE");
  return asked && std::string_view(asked) == "NaiveEngine";
}

/// The number of operations that the engine has. Leaked on purpose: some may end while the process does.
struct census {
  std::mutex guard;
  std::condition_variable none_left;
  std::size_t count = 0;
};

census& living() {
  static auto* only = new census;
  return *only;
}

void add_distinct(std::vector<array>& arrays, array numbers) {
  const bool present = std::any_of(arrays.begin(), arrays.end(),
                                   [numbers](array other) { return share_memory(numbers, other); });
  if (!present) // the engine would wait for itself
    arrays.push_back(numbers);
}

} // namespace

operation::operation(const library& mxnet, const farandole_kernel_api& api, const request& request)
    : mxnet_(mxnet), api_(api), request_(request) {
  std::lock_guard lock(living().guard);
  ++living().count;
}

operation::~operation() {
  for (const auto& member : members_) {
    api_.release(member->handle);
    mxnet_.free(member->source);
    if (member->target != member->source)
      mxnet_.free(member->target);
  }
  std::lock_guard lock(living().guard);
  if (--living().count == 0)
    living().none_left.notify_all();
}

bool operation::drain(std::int64_t timeout_ms) {
  std::unique_lock lock(living().guard);
  return living().none_left.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                                     [] { return living().count == 0; });
}

bool operation::add(const char* name, array source, array target, std::string& problem) {
  auto description = describe(mxnet_, source, request_.operation, problem);
  if (!description)
    return false;
  // The caller may free its own references before the operation has run.
  array own_source = nullptr;
  array own_target = nullptr;
  if (mxnet_.share(source, &own_source) != 0) {
    problem = mxnet_.problem();
    return false;
  }
  if (target == source) {
    own_target = own_source;
  } else if (mxnet_.share(target, &own_target) != 0) {
    problem = mxnet_.problem();
    mxnet_.free(own_source);
    return false;
  }
  members_.push_back(
      std::unique_ptr<member>(new member{this, name, own_source, own_target, std::move(*description)}));
  return true;
}

bool operation::push(std::unique_ptr<operation> self, int priority, std::string& problem) {
  std::vector<array> read;
  std::vector<array> written;
  for (const auto& member : self->members_)
    add_distinct(written, member->target);
  for (const auto& member : self->members_)
    if (member->target != member->source)
      add_distinct(self->may_be_reordered(*member) ? written : read, member->source);
  std::shared_ptr<std::string> told;
  if (engine_is_naive())
    told = self->told_ = std::make_shared<std::string>();
  const std::int64_t elements = self->elements();
  self->may_wait_ = priority != 0 && elements <= most_waited_elements;
  const bool beside = priority != 0 && elements > most_computing_thread_elements;
  static constexpr device host = {1, 0};
  const library& mxnet = self->mxnet_;
  operation* given = self.release();
  const int refused = mxnet.push(
      &run, given, [](void* which) { delete static_cast<operation*>(which); }, &host, read.data(),
      static_cast<int>(read.size()), written.data(), static_cast<int>(written.size()),
      beside ? &on_prioritized_thread : &on_computing_thread, priority, "farandole", false);
  if (refused != 0)
    problem = mxnet.problem();
  else if (told)
    problem = *told;
  return refused == 0 && (!told || told->empty());
}

void operation::run(void* /*run_context*/, void* completion, void* parameter) {
  auto& self = *static_cast<operation*>(parameter);
  self.done_ = *static_cast<mxnet::completion*>(completion);
  self.start();
}

void operation::start() {
  std::vector<farandole_submission> submissions;
  std::vector<farandole_handle*> handles(members_.size());
  farandole_error reason{};
  unsettled_ = 1; // for this function: the operation must not end while the function uses the members
  if (!fill(submissions)) {
    leave();
    return;
  }
  if (api_.submit(submissions.data(), submissions.size(), handles.data(), &reason) != FARANDOLE_OK) {
    fail(reason);
    leave();
    return;
  }
  unsettled_ += members_.size();
  for (std::size_t i = 0; i < handles.size(); ++i)
    members_[i]->handle = handles[i];
  for (const auto& member : members_)
    if (may_wait_ && settles_soon(member->handle))
      on_settled(member.get());
    else if (api_.on_settled(member->handle, &on_settled, member.get(), &reason) != FARANDOLE_OK) {
      fail(reason);
      leave();
    }
  leave();
}

/// Vectors have only one memory layout.
bool operation::may_be_reordered(const member& member_info) const {
  return mxnet_.make_plain && member_info.value.shape.size() > 1;
}

std::int64_t operation::elements() const {
  std::int64_t sum = 0;
  for (const auto& member : members_)
    sum += std::accumulate(member->value.shape.begin(), member->value.shape.end(), std::int64_t{1},
                           std::multiplies<>());
  return sum;
}

bool operation::settles_soon(farandole_handle* handle) const {
  farandole_error reason{};
  return api_.wait(handle, patience_ms, &reason) != FARANDOLE_TIMED_OUT;
}

bool operation::fill(std::vector<farandole_submission>& submissions) {
  submissions.reserve(members_.size());
  for (const auto& member : members_) {
    farandole_submission next = FARANDOLE_SUBMISSION_INIT;
    next.name = member->name.c_str();
    next.operation = request_.operation;
    next.dtype = member->value.dtype;
    next.reduce_op = request_.reduce_op;
    next.root = request_.root;
    next.prescale = request_.prescale;
    next.postscale = request_.postscale;
    next.shape = member->value.shape.data();
    next.dimensions = member->value.shape.size();
    next.set = request_.set;
    next.completion_mode = may_wait_ ? FARANDOLE_COMPLETION_WAIT : FARANDOLE_COMPLETION_CALLBACK;
    if (may_be_reordered(*member))
      mxnet_.make_plain(memory_of(member->source));
    void* source = nullptr;
    void* target = nullptr;
    if (mxnet_.data_of(member->source, &source) != 0 || mxnet_.data_of(member->target, &target) != 0) {
      fail(member->name + ": " + mxnet_.problem());
      return false;
    }
    next.input = source;
    next.output = target;
    submissions.push_back(next);
  }
  return true;
}

void operation::on_settled(void* which) {
  const auto& settled = *static_cast<member*>(which);
  operation& self = *settled.owner;
  farandole_error reason{};
  if (self.api_.wait(settled.handle, 0, &reason) != FARANDOLE_OK)
    self.fail(reason);
  self.leave();
}

/// MXNet derives the class of an error from the part of its text before the first colon; farandole/mxnet/errors.py
/// has registered these classes: "farandole.timed_out: …".
void operation::fail(const farandole_error& reason) {
  std::string kind = api_.kind_of(reason.status);
  std::replace(kind.begin(), kind.end(), ' ', '_');
  fail("farandole." + kind + ": " + reason.text);
}

void operation::fail(const std::string& text) {
  std::lock_guard lock(mutex_);
  if (problem_.empty())
    problem_ = text.empty() ? "the operation failed" : text;
}

void operation::leave() {
  if (--unsettled_ != 0)
    return;
  // The engine deletes the operation once it has been told of the end, so these fields are copied first.
  const completion done = done_;
  const std::string problem = problem_;
  if (problem.empty()) {
    done.succeed();
    return;
  }
  if (told_)
    *told_ = problem;
  done.fail(problem);
}

} // namespace farandole::mxnet
