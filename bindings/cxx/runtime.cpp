#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "actors/member_runtime.hpp"
#include "actors/this_host.hpp"
#include "bindings/cxx/farandole.hpp"

namespace farandole {

namespace {

// Memory that a forked child finds zeroed: how a call knows, at the cost of one load, that it is in the
// process where the runtime lives.
class birth_mark {
public:
  birth_mark() : page_(static_cast<volatile int*>(map())) {
    if (page_)
      *page_ = 1;
  }
  birth_mark(const birth_mark&) = delete;
  birth_mark& operator=(const birth_mark&) = delete;
  ~birth_mark() {
    if (page_)
      munmap(const_cast<int*>(page_), size());
  }
  bool here() const { return page_ ? *page_ == 1 : process_ == getpid(); }

private:
  static std::size_t size() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  static void* map() {
    auto* page = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
      return nullptr;
    if (madvise(page, size(), MADV_WIPEONFORK) == 0)
      return page;
    munmap(page, size());
    return nullptr;
  }
  volatile int* page_;
  pid_t process_ = getpid();
};

error in_child() {
  return {error_kind::precondition,
          "this process was forked from one that runs Farandole; only the parent may use it "
          "(start processes with spawn, or call init() before the fork in neither)"};
}

environment_lookup lookup_for(const options& how) {
  auto beneath = how.read_environment ? process_environment() : environment_lookup{};
  return [given = how.settings, beneath](std::string_view name) -> std::optional<std::string> {
    if (auto found = given.find(std::string(name)); found != given.end())
      return found->second;
    return beneath ? beneath(name) : std::nullopt;
  };
}

intent intent_of(const submission& what) {
  return {what.name, what.signature, what.input, what.output, what.splits};
}

} // namespace

class runtime::state {
public:
  explicit state(std::unique_ptr<member_runtime> started) : member(std::move(started)) {}
  ~state() {
    // In a forked child there are no threads to join and no sockets to close: they are the parent's.
    if (!mark.here())
      static_cast<void>(member.release());
  }

  error refusal(const submission& what) const {
    if (!mark.here())
      return in_child();
    if (what.set != 0)
      return {error_kind::invalid_argument, std::string(what.name) + ": there is no process set " +
                                                std::to_string(what.set) + "; 0 is the global set"};
    return {};
  }

  birth_mark mark;
  std::unique_ptr<member_runtime> member;
};

runtime::runtime(std::unique_ptr<state> built) : state_(std::move(built)) {}
runtime::~runtime() = default;

expected<std::unique_ptr<runtime>> runtime::start(const options& how) {
  auto values = settings::load({lookup_for(how), {}, {}});
  if (!values)
    return values.error();
  auto secret = how.secret.empty() ? job_secret(*values) : expected<std::string>(how.secret);
  if (!secret)
    return secret.error();
  auto member = member_runtime::start(std::move(*values), *secret);
  if (!member)
    return member.error();
  return std::unique_ptr<runtime>(new runtime(std::make_unique<state>(std::move(*member))));
}

void runtime::shutdown() {
  if (state_->mark.here())
    state_->member->shutdown();
}

bool runtime::alive() const {
  return state_->mark.here() && state_->member->alive();
}
bool runtime::usable_here() const {
  return state_->mark.here();
}

std::int32_t runtime::rank() const {
  return state_->member->self().rank;
}
std::int32_t runtime::size() const {
  return static_cast<std::int32_t>(state_->member->standing().members.size());
}
std::int32_t runtime::local_rank() const {
  return state_->member->self().local_rank;
}
std::int32_t runtime::local_size() const {
  return state_->member->self().local_size;
}
std::int32_t runtime::cross_rank() const {
  return state_->member->self().cross_rank;
}
std::int32_t runtime::cross_size() const {
  return state_->member->self().cross_size;
}

bool runtime::is_homogeneous() const {
  auto& members = state_->member->standing().members;
  for (auto& one : members)
    if (one.local_size != members.front().local_size)
      return false;
  return true;
}

expected<handle> runtime::submit(const submission& what) {
  if (auto problem = state_->refusal(what))
    return problem;
  auto operation = state_->member->door().submit(intent_of(what));
  if (!operation)
    return operation.error();
  return handle(operation->release());
}

expected<std::vector<handle>> runtime::submit_group(std::span<const submission> what) {
  std::vector<intent> intents;
  for (auto& one : what) {
    if (auto problem = state_->refusal(one))
      return problem;
    intents.push_back(intent_of(one));
  }
  auto operations = state_->member->door().submit_group(intents);
  if (!operations)
    return operations.error();
  std::vector<handle> handles;
  for (auto& operation : *operations)
    handles.emplace_back(operation.release());
  return handles;
}

runtime::counters runtime::count() const {
  counters now;
  if (!state_->mark.here())
    return now;
  auto& member = *state_->member;
  now.submitted = member.door().submitted();
  now.on_board = member.door().on_board();
  now.bundles = member.standing().bundles;
  now.bytes_moved = member.standing().bytes_moved;
  now.loop_wakeups = member.loop_wakeups();
  return now;
}

} // namespace farandole
