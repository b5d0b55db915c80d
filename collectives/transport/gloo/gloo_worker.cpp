#include "collectives/transport/gloo/gloo_worker.hpp"

#include <algorithm>
#include <cassert>
#include <thread>

#include "collectives/transport/gloo/gloo_address.hpp"
#include "collectives/transport/gloo/gloo_library.hpp"
#include "collectives/transport/gloo/gloo_slot.hpp"
#include "collectives/transport/progress_deadline.hpp"
#include "collectives/transport/signals_blocked.hpp"

namespace farandole {
namespace {

/// Longer than for other messengers, because Gloo's thread sends and receives and must be woken for it.
constexpr departure_times times{.goodbye_wait = std::chrono::milliseconds{20},
                                .last_words = std::chrono::milliseconds{50}};
constexpr std::chrono::milliseconds between_looks{1};

} // namespace

expected<std::unique_ptr<gloo_worker>> gloo_worker::open(const gloo_options& options) {
  const expected<gloo_open*>& open = load_gloo();
  if (!open)
    return open.error();
  const signals_blocked guard; // Gloo's thread inherits the mask
  std::string problem;
  std::unique_ptr<gloo_mesh> mesh{
      (**open)(options.rank, static_cast<int>(options.global_ranks.size()), options.ip.c_str(), problem)};
  if (!mesh)
    return error{error_kind::unimplemented, "the gloo path cannot listen on " + options.ip + ": " + problem};
  return std::unique_ptr<gloo_worker>{new gloo_worker(options, std::move(mesh))};
}

gloo_worker::gloo_worker(const gloo_options& options, std::unique_ptr<gloo_mesh> mesh)
    : rank_(options.rank), members_(static_cast<std::int32_t>(options.global_ranks.size())),
      departure_("gloo", options.global_ranks, times), greeting_(options.generation, options.set),
      mesh_(std::move(mesh)) {
  departure_.meet(rank_, members_);
}

gloo_worker::~gloo_worker() {
  leave();
}

std::string gloo_worker::address() const {
  std::vector<std::string> addresses(static_cast<std::size_t>(members_));
  for (std::int32_t peer = 0; peer < members_; ++peer)
    if (peer != rank_)
      addresses[static_cast<std::size_t>(peer)] = mesh_->address(peer);
  return packed_addresses(addresses);
}

error gloo_worker::connect(std::span<const std::string> addresses, std::int32_t /*rank: known since open()*/,
                           const deadline_and_abort& deadline) {
  assert(addresses.size() == static_cast<std::size_t>(members_) && !goodbyes_.listening() &&
         "a worker connects once");
  const gloo_watch::orders orders{
      [&deadline] { return deadline.abort.raised() || clock::now() >= deadline.deadline; },
      [this] { mesh_->close(); }};
  for (std::int32_t peer = 0; peer < members_ && !departure_.failure(); ++peer) {
    if (peer == rank_)
      continue;
    const std::string address =
        address_at(addresses[static_cast<std::size_t>(peer)], static_cast<std::size_t>(rank_));
    if (address.empty()) {
      departure_.fail({error_kind::unimplemented,
                       departure_.name_of(peer) + " cannot be reached by Gloo: it announced no address"});
      break;
    }
    const std::string problem = watch_.over(orders, [&] { return mesh_->connect(peer, address); });
    if (error reason = departure_.reason_to_stop(deadline, deadline.deadline, peer))
      departure_.fail(reason);
    else if (!problem.empty())
      departure_.lose_connection(peer, problem);
  }
  if (!departure_.failure())
    goodbyes_.listen(*mesh_, rank_, members_, departure_);
  // connect() returns when the kernel has established the connection. Only a message in each direction proves
  // that the peer's Gloo has accepted it and that it belongs to this peer.
  if (!departure_.failure())
    departure_.fail(greeting_.exchange(*this, departure_, deadline));
  return departure_.failure() ? end() : error{};
}

// ---- messages ------------------------------------------------------------------------------------

void gloo_worker::send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
                       message_ticket& ticket) {
  std::string problem;
  gloo_message* made = departure_.failure() ? nullptr
                                            : mesh_->send(peer, gloo_slot(phase, bytes.size()), bytes.data(),
                                                          bytes.size(), problem);
  keep({std::unique_ptr<gloo_message>(made), &ticket, {peer, phase, false, bytes.size()}}, problem);
}

void gloo_worker::receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
                          message_ticket& ticket) {
  std::string problem;
  gloo_message* made = departure_.failure() ? nullptr
                                            : mesh_->receive(peer, gloo_slot(phase, bytes.size()),
                                                             bytes.data(), bytes.size(), problem);
  keep({std::unique_ptr<gloo_message>(made), &ticket, {peer, phase, true, bytes.size()}}, problem);
}

/// After a failure no message is started, and the ticket stays pending, so the next wait() reports the
/// failure.
void gloo_worker::keep(record begun, const std::string& problem) {
  ++begun.ticket->pending;
  if (begun.message)
    under_way_.push_back(std::move(begun));
  else if (!departure_.failure())
    departure_.lose_message(begun.awaited.peer, problem);
}

// Gloo does not tell how much of a message it has moved, so progress is the end of a message.
error gloo_worker::wait(const message_ticket& ticket, const deadline_and_abort& deadline) {
  while (ticket.pending != 0) {
    if (departure_.failure())
      return end();
    const auto next = std::find_if(under_way_.begin(), under_way_.end(),
                                   [&](const record& record) { return record.ticket == &ticket; });
    assert(next != under_way_.end() && "a message that is not under way has failed");
    const auto limit = progress_deadline(deadline.deadline, timeout_, clock::now()).at();
    const std::string problem = wait_for(*next, deadline, limit);
    if (!problem.empty()) {
      awaited_ = next->awaited;
      if (error reason = departure_.reason_to_stop(deadline, limit, awaited_.peer))
        departure_.fail(reason);
      else
        departure_.lose_message(awaited_.peer, problem);
      return end();
    }
    --next->ticket->pending;
    under_way_.erase(next);
  }
  return {};
}

std::string gloo_worker::wait_for(const record& pending, const deadline_and_abort& deadline,
                                  clock::time_point limit) {
  const gloo_watch::orders orders{[&] {
                                    return deadline.abort.raised() || clock::now() >= limit ||
                                           goodbyes_.failure_announced() ||
                                           goodbyes_.broken(pending.awaited.peer);
                                  },
                                  [&pending] { pending.message->give_up(); }};
  // Gloo's limit is later than this one, so that the watch ends the wait first: a wait that Gloo ends
  // itself closes the connections, and no goodbye can be sent.
  constexpr std::chrono::seconds late{1};
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(limit - clock::now()) + late;
  return watch_.over(
      orders, [&] { return pending.message->wait(std::max<std::chrono::milliseconds>(patience, late)); });
}

// ---- the end -------------------------------------------------------------------------------------

void gloo_worker::give_up(const error& reason) {
  departure_.fail(reason);
  end();
}

error gloo_worker::end() {
  if (departure_.guessed())
    hear_out();
  leave();
  return departure_.failure();
}

void gloo_worker::hear_out() {
  if (goodbyes_.listening()) {
    const auto deadline = clock::now() + departure_.goodbye_wait();
    for (goodbyes_.report(departure_); departure_.guessed() && clock::now() < deadline;
         goodbyes_.report(departure_))
      std::this_thread::sleep_for(between_looks);
    goodbyes_.report_broken(departure_);
  }
  departure_.settle();
}

void gloo_worker::leave() {
  if (!mesh_)
    return;
  const goodbye_round parting = departure_.leave(awaited_);
  if (goodbyes_.listening())
    say(parting);
  mesh_->close();
  std::vector<awaited_message> own;
  for (const record& record : under_way_)
    own.push_back(record.awaited);
  departure_.compare_lengths(own);
  under_way_.clear();
  goodbyes_ = {};
  mesh_.reset();
}

/// Sends the goodbyes and waits for those of the others. A member that finds its connection closed before it
/// has read a goodbye may never read it, because Gloo treats the first failed write as the end of the
/// connection.
void gloo_worker::say(const goodbye_round& parting) {
  spoken_ = parting.message.encode();
  const auto deadline = clock::now() + parting.patience;
  std::vector<std::unique_ptr<gloo_message>> sent;
  for (const std::int32_t peer : parting.recipients) {
    std::string problem;
    sent.emplace_back(mesh_->send(peer, gloo_slot(message_phase::goodbye, spoken_.size()), spoken_.data(),
                                  spoken_.size(), problem));
  }
  for (const auto& message : sent)
    if (message)
      message->wait(std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()),
                             std::chrono::milliseconds{0}));
  for (;;) {
    goodbyes_.report(departure_);
    goodbyes_.report_broken(departure_);
    if (departure_.all_departed() || clock::now() >= deadline)
      break;
    std::this_thread::sleep_for(between_looks);
  }
  mesh_->close(); // before the messages are destroyed
}

} // namespace farandole
