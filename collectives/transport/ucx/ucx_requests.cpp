#include "collectives/transport/ucx/ucx_requests.hpp"

namespace farandole {

void ucx_requests::send(std::int32_t peer, const ucx_tag& tag, std::span<const std::byte> bytes,
                        message_ticket& ticket) {
  if (!departure_.failure() && endpoints_.to(peer) == nullptr)
    departure_.lose_message(peer, "its connection is closed");
  if (departure_.failure())
    ++ticket.pending;
  else
    post_send(peer, tag.bits(), bytes, ticket);
}

void ucx_requests::receive(std::int32_t peer, const ucx_tag& tag, std::span<std::byte> bytes,
                           message_ticket& ticket) {
  if (departure_.failure()) {
    ++ticket.pending;
    return;
  }
  post_receive(peer, tag.bits(), ucx_tag_exact, bytes, ticket);
  require(peer);
}

ucx_requests::record& ucx_requests::new_record(std::int32_t peer, bool receives, std::size_t bytes,
                                               message_ticket& ticket) {
  if (free_.empty()) {
    records_.emplace_back();
    free_.push_back(&records_.back());
  }
  record& made = *free_.back();
  free_.pop_back();
  made = {this, &ticket, nullptr, peer, receives, bytes};
  ++ticket.pending;
  if (receives && peer >= 0)
    ++receives_[static_cast<std::size_t>(peer)];
  return made;
}

void ucx_requests::post_send(std::int32_t peer, std::uint64_t tag, std::span<const std::byte> bytes,
                             message_ticket& ticket) {
  record& made = new_record(peer, false, bytes.size(), ticket);
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &ucx_requests::on_sent;
  params.user_data = &made;
  void* request = context_.ucx().tag_send_nbx(endpoints_.to(peer), bytes.data(), bytes.size(), tag, &params);
  if (UCS_PTR_IS_PTR(request))
    made.request = request;
  else
    finish(made, UCS_PTR_STATUS(request));
}

void ucx_requests::post_receive(std::int32_t peer, std::uint64_t tag, std::uint64_t mask,
                                std::span<std::byte> bytes, message_ticket& ticket) {
  record& made = new_record(peer, true, bytes.size(), ticket);
  ucp_request_param_t params{};
  // Completion is always by callback, because UCX 1.13 does not report the length of receives that complete
  // immediately.
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.cb.recv = &ucx_requests::on_received;
  params.user_data = &made;
  void* request =
      context_.ucx().tag_recv_nbx(context_.worker(), bytes.data(), bytes.size(), tag, mask, &params);
  if (UCS_PTR_IS_ERR(request))
    finish_receive(made, UCS_PTR_STATUS(request), ucp_tag_recv_info_t{});
  else if (made.ticket != nullptr) // otherwise the callback was called already and has freed the request
    made.request = request;
}

void ucx_requests::on_sent(void* request, ucs_status_t status, void* owner) {
  record& done = *static_cast<record*>(owner);
  done.owner->context_.ucx().request_free(request);
  done.owner->finish(done, status);
}

void ucx_requests::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                               void* owner) {
  record& done = *static_cast<record*>(owner);
  const ucp_tag_recv_info_t copy = *info; // `info` lies in the request
  done.owner->context_.ucx().request_free(request);
  done.owner->finish_receive(done, status, copy);
}

void ucx_requests::finish_receive(record& done, ucs_status_t status, const ucp_tag_recv_info_t& info) {
  if (done.ticket == &heard_ticket_) {
    finish(done, status);
    receive_goodbye(status, info);
  } else {
    finish(done, status == UCS_OK && info.length != done.bytes ? UCS_ERR_MESSAGE_TRUNCATED : status);
  }
}

/// A failed message stays pending for ever. Therefore no wait for its ticket can treat its memory as filled
/// or its bytes as sent: the wait returns the failure, in the operation to which the message belongs.
/// Goodbyes are not waited for in this way.
void ucx_requests::finish(record& done, ucs_status_t status) {
  const bool asked_for = done.ticket != &heard_ticket_ && done.ticket != &spoken_ticket_;
  if (status == UCS_OK || !asked_for)
    --done.ticket->pending;
  if (status == UCS_OK && asked_for)
    ++ended_;
  if (done.receives && done.peer >= 0)
    --receives_[static_cast<std::size_t>(done.peer)];
  if (status != UCS_OK && done.peer >= 0)
    departure_.lose_message(done.peer, context_.ucx().status_string(status));
  done.request = nullptr;
  done.ticket = nullptr;
  free_.push_back(&done);
}

void ucx_requests::require(std::int32_t peer) {
  if (receives_[static_cast<std::size_t>(peer)] != 0)
    departure_.require(peer);
}

// ---- goodbyes ------------------------------------------------------------------------------------

void ucx_requests::listen() {
  const bool certain = departure_.failure() && !departure_.guessed();
  if (heard_ticket_.pending == 0 && !certain)
    post_receive(-1, ucx_tag{0, 0, 0, message_phase::goodbye, 0}.bits(), ucx_tag_phase_only, heard_,
                 heard_ticket_);
}

std::uint64_t ucx_requests::goodbye_tag(std::int32_t source) const {
  return ucx_tag{group_.generation, group_.set, 0, message_phase::goodbye, source}.bits();
}

/// Checks the tag too, because any process that knows the worker's address may send a goodbye.
void ucx_requests::receive_goodbye(ucs_status_t status, const ucp_tag_recv_info_t& info) {
  if (status != UCS_OK && status != UCS_ERR_MESSAGE_TRUNCATED)
    return;
  const std::int32_t source = source_of(info.sender_tag);
  if ((info.sender_tag & ucx_tag_any_work) != (goodbye_tag(source) & ucx_tag_any_work) ||
      static_cast<std::size_t>(source) >= receives_.size())
    return;
  const std::size_t length = status == UCS_OK ? info.length : 0; // too long for a goodbye
  departure_.receive_goodbye(source, std::span{heard_}.first(length));
  require(source);
}

void ucx_requests::say(const goodbye_round& parting, ucx_context::clock::time_point deadline) {
  spoken_ = parting.message.encode();
  const std::uint64_t tag = goodbye_tag(rank_);
  for (const std::int32_t peer : parting.recipients)
    if (endpoints_.to(peer) != nullptr)
      post_send(peer, tag, spoken_, spoken_ticket_);
  context_.progress_until(deadline, [&] { return spoken_ticket_.pending == 0; });
}

void ucx_requests::cancel_receives() {
  for (record& pending : records_)
    if (pending.request != nullptr && pending.receives)
      context_.ucx().request_cancel(context_.worker(), pending.request);
}

} // namespace farandole
