// The messages in progress in UCX, and the posted receive of the next goodbye. Their ends are reported to
// their tickets and to the departure protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "collectives/transport/p2p/departure_protocol.hpp"
#include "collectives/transport/ucx/ucx_context.hpp"
#include "collectives/transport/ucx/ucx_endpoints.hpp"
#include "collectives/transport/ucx/ucx_tag.hpp"

namespace farandole {

class ucx_requests {
public:
  /// `group`: the generation and set of all goodbyes. The context must be destroyed before this object.
  ucx_requests(ucx_context& context, const ucx_endpoints& endpoints, departure_protocol& departing,
               const ucx_tag& group)
      : context_(context), endpoints_(endpoints), departure_(departing), group_(group) {}
  ucx_requests(const ucx_requests&) = delete;
  ucx_requests& operator=(const ucx_requests&) = delete;

  void meet(std::int32_t rank, std::int32_t members) {
    rank_ = rank;
    receives_.resize(static_cast<std::size_t>(members));
  }

  /// After a failure, no message is started and the ticket stays pending, so the next wait reports the
  /// failure.
  void send(std::int32_t peer, const ucx_tag& tag, std::span<const std::byte> bytes, message_ticket& ticket);
  void receive(std::int32_t peer, const ucx_tag& tag, std::span<std::byte> bytes, message_ticket& ticket);

  /// Posts the receive of a goodbye of any member, unless it is posted already. Must be called repeatedly
  /// while members may send goodbyes.
  void listen();
  /// Sends the goodbyes to the members that have endpoints, and drives UCX until it has accepted the
  /// messages.
  void say(const goodbye_round& parting, ucx_context::clock::time_point deadline);
  /// How many messages of this member have ended well so far. Goodbyes are not counted.
  std::uint64_t ended() const { return ended_; }
  /// Cancels the posted receives. Their callbacks are called when the context is driven or destroyed.
  void cancel_receives();

private:
  /// A request in progress. UCX passes its address to the callbacks.
  struct record {
    ucx_requests* owner = nullptr;
    message_ticket* ticket = nullptr; ///< null: free
    void* request = nullptr;          ///< null: free, or UCX does not need it
    std::int32_t peer = -1;           ///< -1: the receive of a goodbye of any member
    bool receives = false;
    std::size_t bytes = 0;
  };

  static void on_sent(void* request, ucs_status_t status, void* owner);
  static void on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* owner);

  record& new_record(std::int32_t peer, bool receives, std::size_t bytes, message_ticket& ticket);
  void post_send(std::int32_t peer, std::uint64_t tag, std::span<const std::byte> bytes,
                 message_ticket& ticket);
  void post_receive(std::int32_t peer, std::uint64_t tag, std::uint64_t mask, std::span<std::byte> bytes,
                    message_ticket& ticket);
  /// Called when UCX is done with the message; its memory belongs to the caller again.
  void finish(record& done, ucs_status_t status);
  void finish_receive(record& done, ucs_status_t status, const ucp_tag_recv_info_t& info);
  std::uint64_t goodbye_tag(std::int32_t source) const;
  void receive_goodbye(ucs_status_t status, const ucp_tag_recv_info_t& info);
  /// Tells the departure protocol if receives from the peer, which may have left, are posted.
  void require(std::int32_t peer);

  ucx_context& context_;
  const ucx_endpoints& endpoints_;
  departure_protocol& departure_;
  const ucx_tag group_;
  std::int32_t rank_ = 0;
  std::deque<record> records_; ///< a deque, so that addresses are stable
  std::vector<record*> free_;
  std::vector<std::size_t> receives_; ///< number of receives in progress, by rank
  std::uint64_t ended_ = 0;
  goodbye::encoded heard_{};
  goodbye::encoded spoken_{};    ///< kept here, because a peer may never receive it
  message_ticket heard_ticket_;  ///< of the posted receive of a goodbye: at most one is pending
  message_ticket spoken_ticket_; ///< of this member's goodbyes
};

} // namespace farandole
