// One UCX worker with its endpoints, for one lane and one generation: messages out of and into the caller's
// memory, and waits that end by themselves. A wait that fails (a peer is gone, the abort token was raised,
// the deadline passed) first tears everything down; only then does it return, so no memory is touched behind
// its back.
//
// Members that leave say goodbye and why. So the loss of one member is told by its name to all others, though
// most of them only see that the first to notice has closed its connections; and who left in order is not
// taken for dead.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/paths/exchange/peer_losses.hpp"
#include "collectives/paths/exchange/peer_messenger.hpp"
#include "collectives/paths/path.hpp"
#include "collectives/paths/ucx/ucx_library.hpp"
#include "collectives/paths/ucx/ucx_path.hpp"
#include "collectives/paths/ucx/ucx_tag.hpp"

namespace farandole {

class ucx_worker : public peer_messenger {
public:
  static expected<std::unique_ptr<ucx_worker>> open(const ucx_options& options);
  /// leave().
  ~ucx_worker() override;
  ucx_worker(const ucx_worker&) = delete;
  ucx_worker& operator=(const ucx_worker&) = delete;

  std::string address() const override;
  /// Makes an endpoint to each member and proves it with messages each way.
  error connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until) override;

  std::int32_t rank() const override { return rank_; }
  std::int32_t members() const override { return static_cast<std::int32_t>(peers_.size()); }

  void begin(std::uint64_t sequence) override { sequence_ = sequence; }
  void send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
            message_ticket& ticket) override;
  void receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
               message_ticket& ticket) override;

  /// Takes in what has come, without waiting. Before sending, lest a write to a closed connection be all that
  /// is seen of a member that had said why it closed it.
  void look() override;
  /// Blocks until all messages of the ticket are done. After an error nothing of this worker exists any more.
  error wait(const message_ticket& ticket, const limits& until) override;
  error flush(const limits& until) override;
  void give_up(const error& why) override;

  /// Says goodbye, then closes. Bounded by half a second; idempotent.
  void leave();

private:
  using clock = std::chrono::steady_clock;

  struct peer {
    ucx_worker* owner = nullptr;
    ucp_ep_h endpoint = nullptr;
    std::size_t receives = 0; ///< posted, not done
    bool broken = false;      ///< its error handler was called
    bool left = false;        ///< it said goodbye, in order
  };
  /// A request that UCX has not finished. Its address is what UCX gives back.
  struct record {
    ucx_worker* owner = nullptr;
    message_ticket* ticket = nullptr;
    void* request = nullptr; ///< null: free
    std::int32_t peer = -1;
    bool receives = false;
    std::size_t bytes = 0;
  };
  struct goodbye {
    std::int32_t culprit = -1; ///< rank within the set that is to blame; -1: none, the sender leaves in order
    std::int32_t reserved = 0;
  };

  ucx_worker(const ucx_library& ucx, const ucx_options& options);
  error start(const ucx_options& options);
  error create_endpoints(std::span<const std::string> addresses);
  /// What failed while members met may be for want of a fabric that UCX may use.
  error with_remedy(error problem) const;
  /// Says who this member is to all others, and hears and checks the same of each.
  error greet(const limits& until);

  static void on_sent(void* request, ucs_status_t status, void* owner);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* owner);
  static void on_broken(void* owner, ucp_ep_h endpoint, ucs_status_t status);

  record& new_record(std::int32_t peer, bool receives, std::size_t bytes, message_ticket& ticket);
  bool hopeless(message_ticket& ticket);
  void post_send(std::int32_t peer, std::uint64_t tag, std::span<const std::byte> bytes,
                 message_ticket& ticket);
  void post_receive(std::int32_t peer, std::uint64_t tag, std::uint64_t mask, std::span<std::byte> bytes,
                    message_ticket& ticket);
  /// UCX has no more to do with the message, whose memory is the caller's again.
  void finish(record& done, ucs_status_t status);
  void finish_receive(record& done, ucs_status_t status, const ucp_tag_recv_info_t& info);
  void listen_for_goodbye();
  void hear_goodbye(std::int32_t source);
  void blame(std::int32_t peer, const std::string& why, bool guessed = false);
  void check_left(std::int32_t peer);

  error wait_for(const std::function<bool()>& done, const limits& until);
  /// Why a wait must end now; kind none: it may go on.
  error reason_to_stop(const limits& until) const;
  /// Sleeps until UCX has news, or for a slice. False: there is news already.
  bool sleep(clock::time_point until);
  std::uint64_t tag(message_phase phase, std::int32_t source) const;

  void say_goodbye(std::int32_t culprit, std::chrono::steady_clock::time_point until);
  /// `culprit` -1: in order.
  void tear_down(std::int32_t culprit);
  /// Listens a little: perhaps somebody says why connections were closed.
  void hear_out();
  bool progress_until(clock::time_point until, const std::function<bool()>& done);
  void await_and_free(std::span<void* const> requests, clock::time_point until);
  void cancel_receives();
  void close_endpoints(clock::time_point until);
  void break_endpoints();

  const ucx_library& ucx_;
  const std::uint64_t generation_;
  const std::uint32_t set_;
  peer_losses losses_;
  const bool spins_;
  const bool trusted_network_;

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_ = -1; ///< owned by the worker
  std::vector<peer> peers_;
  std::int32_t rank_ = 0;
  std::uint64_t sequence_ = 0;

  std::deque<record> records_; ///< addresses stay
  std::vector<record*> free_;
  std::vector<std::byte> greeting_;  ///< here, for a connect() that fails leaves them on their way
  std::vector<std::byte> greetings_; ///< of all members
  message_ticket greeting_ticket_;

  goodbye heard_;
  goodbye spoken_; ///< here, for a peer may never take it
  message_ticket spoken_ticket_;
  record* ear_ = nullptr; ///< the posted receive of a goodbye
  message_ticket ear_ticket_;
  bool connecting_ = false;
  bool closing_ = false;
  int slice_ms_ = 1; ///< of the next sleep
};

} // namespace farandole
