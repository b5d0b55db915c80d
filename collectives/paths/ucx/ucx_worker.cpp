#include "collectives/paths/ucx/ucx_worker.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "collectives/paths/signals_blocked.hpp"
#include "collectives/paths/ucx/ucx_networks.hpp"

namespace farandole {
namespace {

using clock = std::chrono::steady_clock;

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? std::optional<std::string>(text) : std::nullopt;
}

} // namespace

expected<std::unique_ptr<ucx_worker>> ucx_worker::open(const ucx_options& options) {
  const expected<ucx_library>& ucx = load_ucx();
  if (!ucx)
    return ucx.error();
  std::unique_ptr<ucx_worker> made{new ucx_worker(*ucx, options)};
  if (error problem = made->start(options))
    return problem;
  return made;
}

ucx_worker::ucx_worker(const ucx_library& ucx, const ucx_options& options)
    : ucx_(ucx), generation_(options.generation), set_(options.set), losses_("ucx", options.global_ranks),
      spins_(options.spins), trusted_network_(options.trusted_network) {}

ucx_worker::~ucx_worker() {
  leave();
}

error ucx_worker::start(const ucx_options& options) {
  signals_blocked guard;
  const auto transports = ucx_transports(variable("UCX_TLS"), options.trusted_network);
  if (!transports)
    return transports.error();
  auto failed = [&](const char* what, ucs_status_t status) {
    const std::string remedy =
        options.trusted_network
            ? ""
            : "; without FARANDOLE_TRUSTED_NETWORK=1 it needs a fabric with RDMA (rc, dc, ud), not TCP";
    return error{error_kind::unimplemented, std::string{"the ucx path cannot start: "} + what + ": " +
                                                ucx_.status_string(status) + remedy};
  };
  ucp_config_t* config = nullptr;
  if (ucs_status_t status = ucx_.config_read(nullptr, nullptr, &config); status != UCS_OK)
    return failed("reading UCX's configuration", status);
  // Settings of one transport go by their name without its prefix.
  // What a UCX version does not know is no reason to fail: these only make it quieter and more careful.
  auto set = [&](const char* name, const std::string& value) {
    ucx_.config_modify(config, name, value.c_str());
  };
  set("TLS", *transports);
  const auto devices = ucx_devices(find_network_devices(options.ip), options.trusted_network);
  if (!variable("UCX_NET_DEVICES") && !devices.empty())
    set("NET_DEVICES", devices);
  set("WARN_INVALID_CONFIG", "n");
  // The rendezvous protocol of UCX 1.13 over TCP fails an assertion, and ends the process, when a peer closes
  // in the middle of it. Without it the receiver copies once more.
  if (std::getenv("UCX_RNDV_THRESH") == nullptr)
    set("RNDV_THRESH", "inf");
  // No cache of registered memory, so UCX needs no hooks in the allocator of a process that is not ours.
  set("RCACHE_ENABLE", "n");
  set("REG_METHODS", "direct");
  set("CONN_NB", "y"); // a host that does not answer must not block beyond the deadline
  set("MAX_NUM_EPS", "inf");

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucs_status_t status = ucx_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  ucx_.config_release(config);
  if (status != UCS_OK)
    return failed("making a context", status);
  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
  if (status = ucx_.worker_create(context_, &worker_params, &worker_); status != UCS_OK)
    return failed("making a worker", status);
  if (status = ucx_.worker_get_efd(worker_, &event_); status != UCS_OK)
    return failed("getting its event descriptor", status);
  return {};
}

std::string ucx_worker::address() const {
  ucp_address_t* bytes = nullptr;
  std::size_t length = 0;
  if (worker_ == nullptr || ucx_.worker_get_address(worker_, &bytes, &length) != UCS_OK)
    return {};
  std::string copy(reinterpret_cast<const char*>(bytes), length);
  ucx_.worker_release_address(worker_, bytes);
  return copy;
}

namespace {
std::vector<std::byte> greeting(std::uint64_t generation, std::uint64_t set, std::int32_t source,
                                std::int32_t members) {
  const std::uint64_t words[] = {generation, set, static_cast<std::uint64_t>(source),
                                 static_cast<std::uint64_t>(members)};
  std::vector<std::byte> bytes(sizeof words);
  std::memcpy(bytes.data(), words, sizeof words);
  return bytes;
}
} // namespace

/// A failure here closes nothing yet: UCX 1.13 aborts a process that makes an endpoint to a peer whose own
/// connection to it has come and gone (an assertion in uct_tcp_ep_destroy_progress), and others may still be
/// making theirs. They miss nothing: everybody connects to everybody, so each sees for itself who is dead.
error ucx_worker::connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until) {
  assert(peers_.empty() && "a worker connects once");
  assert(rank >= 0 && static_cast<std::size_t>(rank) < addresses.size());
  rank_ = rank;
  peers_.resize(addresses.size());
  connecting_ = true;
  if (error problem = create_endpoints(addresses)) {
    losses_.fail(problem);
    return problem;
  }
  greeting_ = greeting(generation_, set_, rank_, members());
  greetings_.resize(greeting_.size() * peers_.size());
  // A silent peer is not noticed when it dies before anything was sent to it, so both ends speak first.
  if (error problem = greet(until))
    return with_remedy(std::move(problem));
  // An endpoint has a connection for each device, and each becomes one only while both ends are driven. So
  // nobody stops driving its worker before all others have said that theirs are made.
  if (error problem = flush(until))
    return problem;
  if (error problem = greet(until))
    return problem;
  connecting_ = false;
  return flush(until);
}

error ucx_worker::with_remedy(error problem) const {
  if (!trusted_network_ && problem.kind == error_kind::disconnected)
    problem.text +=
        "; without FARANDOLE_TRUSTED_NETWORK=1, UCX needs a fabric with RDMA (rc, dc, ud) between the "
        "hosts and does not use TCP";
  return problem;
}

error ucx_worker::greet(const limits& until) {
  for (std::int32_t peer = 0; peer < members(); ++peer) {
    if (peer == rank_)
      continue;
    const std::size_t at = greeting_.size() * static_cast<std::size_t>(peer);
    receive(peer, message_phase::hello, std::span{greetings_}.subspan(at, greeting_.size()),
            greeting_ticket_);
    send(peer, message_phase::hello, greeting_, greeting_ticket_);
  }
  if (error problem = wait(greeting_ticket_, until))
    return problem;
  for (std::int32_t peer = 0; peer < members(); ++peer) {
    const auto wanted = greeting(generation_, set_, peer, members());
    const auto got = greetings_.begin() + static_cast<std::ptrdiff_t>(wanted.size()) * peer;
    if (peer != rank_ && !std::equal(wanted.begin(), wanted.end(), got)) {
      losses_.fail({error_kind::precondition,
                    losses_.name_of(peer) + " is in another generation, set or place than announced"});
      return losses_.failure();
    }
  }
  return {};
}

error ucx_worker::create_endpoints(std::span<const std::string> addresses) {
  signals_blocked guard;
  for (std::int32_t at = 0; at < members(); ++at) {
    peer& target = peers_[at];
    target.owner = this;
    if (at == rank_)
      continue;
    if (addresses[at].empty())
      return {error_kind::unimplemented,
              losses_.name_of(at) + " cannot be reached by UCX: it announced no address"};
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(addresses[at].data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = &ucx_worker::on_broken;
    params.err_handler.arg = &target;
    if (ucs_status_t status = ucx_.ep_create(worker_, &params, &target.endpoint); status != UCS_OK) {
      target.endpoint = nullptr;
      blame(at, ucx_.status_string(status), true);
    }
  }
  return {};
}

std::uint64_t ucx_worker::tag(message_phase phase, std::int32_t source) const {
  return ucx_tag{generation_, set_, sequence_, phase, source}.bits();
}

// ---- messages ------------------------------------------------------------------------------------

void ucx_worker::send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
                      message_ticket& ticket) {
  post_send(peer, tag(phase, rank_), bytes, ticket);
}

void ucx_worker::receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
                         message_ticket& ticket) {
  post_receive(peer, tag(phase, peer), ucx_tag_exact, bytes, ticket);
}

ucx_worker::record& ucx_worker::new_record(std::int32_t peer, bool receives, std::size_t bytes,
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
    ++peers_[peer].receives;
  return made;
}

/// After a failure nothing more is begun, and what was asked for will never be done: the next wait() tells.
bool ucx_worker::hopeless(message_ticket& ticket) {
  if (closing_ ? worker_ != nullptr : !losses_.failure())
    return false;
  ++ticket.pending;
  return true;
}

void ucx_worker::post_send(std::int32_t peer, std::uint64_t tag, std::span<const std::byte> bytes,
                           message_ticket& ticket) {
  if (worker_ != nullptr && peers_[peer].endpoint == nullptr)
    blame(peer, "its connection is closed", true);
  if (hopeless(ticket))
    return;
  record& made = new_record(peer, false, bytes.size(), ticket);
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  params.cb.send = &ucx_worker::on_sent;
  params.user_data = &made;
  void* request = ucx_.tag_send_nbx(peers_[peer].endpoint, bytes.data(), bytes.size(), tag, &params);
  if (UCS_PTR_IS_PTR(request))
    made.request = request;
  else
    finish(made, UCS_PTR_STATUS(request));
}

void ucx_worker::post_receive(std::int32_t peer, std::uint64_t tag, std::uint64_t mask,
                              std::span<std::byte> bytes, message_ticket& ticket) {
  if (hopeless(ticket))
    return;
  record& made = new_record(peer, true, bytes.size(), ticket);
  if (peer < 0)
    ear_ = &made;
  ucp_request_param_t params{};
  // Always by callback: UCX 1.13 does not tell the length of what it completes on the spot.
  params.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  params.cb.recv = &ucx_worker::on_received;
  params.user_data = &made;
  void* request = ucx_.tag_recv_nbx(worker_, bytes.data(), bytes.size(), tag, mask, &params);
  if (UCS_PTR_IS_ERR(request))
    finish_receive(made, UCS_PTR_STATUS(request), ucp_tag_recv_info_t{});
  else if (made.ticket != nullptr) // else the callback has come already, and the request is gone
    made.request = request;
  if (peer >= 0)
    check_left(peer);
}

void ucx_worker::on_sent(void* request, ucs_status_t status, void* owner) {
  record& done = *static_cast<record*>(owner);
  done.owner->ucx_.request_free(request);
  done.owner->finish(done, status);
}

void ucx_worker::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                             void* owner) {
  record& done = *static_cast<record*>(owner);
  const ucp_tag_recv_info_t copy = *info; // lies in the request
  done.owner->ucx_.request_free(request);
  done.owner->finish_receive(done, status, copy);
}

void ucx_worker::finish_receive(record& done, ucs_status_t status, const ucp_tag_recv_info_t& info) {
  if (&done == ear_) {
    finish(done, status);
    ear_ = nullptr; // wait() listens again
    if (status == UCS_OK && !closing_ && info.length == sizeof(goodbye))
      hear_goodbye(source_of(info.sender_tag));
    return;
  }
  finish(done, status == UCS_OK && info.length != done.bytes ? UCS_ERR_MESSAGE_TRUNCATED : status);
}

void ucx_worker::on_broken(void* owner, ucp_ep_h, ucs_status_t status) {
  peer& lost = *static_cast<peer*>(owner);
  lost.broken = true;
  if (!lost.left)
    lost.owner->blame(static_cast<std::int32_t>(&lost - lost.owner->peers_.data()),
                      lost.owner->ucx_.status_string(status), true);
}

/// A message that failed stays pending for ever, so that no wait() for its ticket can take its memory for
/// filled, or its bytes for sent: it ends with `failure_`, in the operation that the message belongs to.
/// While this member closes, and for goodbyes, nobody asks.
void ucx_worker::finish(record& done, ucs_status_t status) {
  const bool asked_for = done.peer >= 0 && done.ticket != &ear_ticket_ && !closing_;
  if (status == UCS_OK || !asked_for)
    --done.ticket->pending;
  if (done.receives && done.peer >= 0)
    --peers_[done.peer].receives;
  if (status != UCS_OK && done.peer >= 0 && done.ticket != &ear_ticket_)
    blame(done.peer, ucx_.status_string(status), true);
  done.request = nullptr;
  done.ticket = nullptr;
  free_.push_back(&done);
}

// ---- goodbyes ------------------------------------------------------------------------------------

void ucx_worker::listen_for_goodbye() {
  if (ear_ != nullptr || closing_)
    return;
  const std::uint64_t phase = ucx_tag{0, 0, 0, message_phase::goodbye, 0}.bits();
  post_receive(-1, phase, ucx_tag_phase_only, std::as_writable_bytes(std::span{&heard_, 1}), ear_ticket_);
}

void ucx_worker::hear_goodbye(std::int32_t source) {
  if (source >= members() || source == rank_)
    return;
  if (losses_.hear_goodbye(source, heard_.culprit, members())) {
    peers_[source].left = true;
    check_left(source);
  }
}

void ucx_worker::check_left(std::int32_t peer) {
  if (peers_[peer].left && peers_[peer].receives != 0)
    blame(peer, "it has left the job");
}

void ucx_worker::blame(std::int32_t peer, const std::string& why, bool guessed) {
  if (!closing_)
    losses_.blame(peer, why, guessed);
}

void ucx_worker::say_goodbye(std::int32_t culprit, clock::time_point until) {
  spoken_.culprit = culprit;
  for (std::int32_t at = 0; at < members(); ++at) {
    const peer& target = peers_[at];
    if (target.endpoint != nullptr && !target.broken && !target.left && at != culprit)
      post_send(at, tag(message_phase::goodbye, rank_), std::as_bytes(std::span{&spoken_, 1}),
                spoken_ticket_);
  }
  progress_until(until, [&] { return spoken_ticket_.pending == 0; });
  // A send is done when UCX has the bytes; closing by force would drop what it has not passed on.
  std::vector<void*> flushes;
  for (const peer& target : peers_) {
    ucp_request_param_t params{};
    if (target.endpoint == nullptr || target.broken)
      continue;
    if (void* request = ucx_.ep_flush_nbx(target.endpoint, &params); UCS_PTR_IS_PTR(request))
      flushes.push_back(request);
  }
  await_and_free(flushes, until);
}

} // namespace farandole
