#include "actors/member/job_call.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "actors/event_loop/link.hpp"
#include "actors/event_loop/link_messages.hpp"
#include "actors/event_loop/loop.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {

/// Queue of answers from the event loop to the waiting thread.
class job_answers {
public:
  void put(expected<envelope> answer) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(answer));
    came_.notify_all();
  }

  expected<envelope> next(std::chrono::nanoseconds longest) {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, longest, [this] { return !queue_.empty(); }))
      return error{error_kind::timed_out, "no answer yet"};
    if (!queue_.front())
      return queue_.front(); // an error is the last entry and stays, so that later calls return it again
    auto value = std::move(queue_.front());
    queue_.pop_front();
    return value;
  }

private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<expected<envelope>> queue_;
};

namespace {

/// The check bounds the number of answers that are kept, so the memory is bounded regardless of the peer.
struct caller_state {
  static inline const char* name = "job call";

  void opened(const link_opened& event, const envelope& request) {
    link = event.handle;
    caf::anon_send(link, request);
  }

  void received(const envelope& message) {
    if (over)
      return;
    if (message.kind() == wire::Envelope::Body::REFUSED) {
      auto refusal = decode_refused(message);
      return end(error{error_kind::precondition, refusal ? refusal->reason : refusal.error().text});
    }
    const auto last = is_last(message);
    if (!last)
      return end(error{error_kind::precondition, last.error().text});
    if (*last)
      return end(message);
    heard->put(message);
  }

  void closed(const std::string& reason) { end(error{error_kind::disconnected, reason}); }

  void end(expected<envelope> last) {
    if (std::exchange(over, true))
      return;
    heard->put(std::move(last));
    if (link)
      caf::anon_send(link, close_atom::value);
  }

  std::shared_ptr<job_answers> heard;
  job_call::answer_check is_last;
  caf::actor link; ///< the only reference to the link: without it the link would end without a message
  bool over = false;
};

using caller_actor = link_owner_actor;

} // namespace

struct job_call::parts {
  std::shared_ptr<job_answers> heard = std::make_shared<job_answers>();
  loop_system system;
  caller_actor actor;
};

job_call::job_call(const job_target& job, const envelope& request, answer_check is_last)
    : parts_(std::make_unique<parts>()) {
  auto& system = parts_->system.get();
  parts_->actor =
      system.spawn([request, is_last = std::move(is_last), heard = parts_->heard](
                       caller_actor::stateful_pointer<caller_state> self) -> caller_actor::behavior_type {
        auto& state = self->state;
        state.heard = heard;
        state.is_last = is_last;
        return {
            [&state, request](const link_opened& event) { state.opened(event, request); },
            [&state](const link_received& event) { state.received(event.message); },
            [&state](const link_closed& event) { state.closed(event.reason); },
        };
      });
  link_settings links;
  links.credentials = std::make_shared<const tls_credentials>(job.secret);
  links.connect_timeout = job.connect_timeout;
  dial(system, job.ip, job.port, caf::actor_cast<caf::actor>(parts_->actor), 1, links);
}

job_call::~job_call() {
  caf::anon_send_exit(parts_->actor, caf::exit_reason::user_shutdown);
  parts_->actor = nullptr;
}

expected<envelope> job_call::next(std::chrono::nanoseconds longest) {
  return parts_->heard->next(longest);
}

} // namespace farandole
