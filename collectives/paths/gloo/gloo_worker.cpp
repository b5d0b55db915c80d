#include "collectives/paths/gloo/gloo_worker.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <thread>

#include "collectives/paths/gloo/gloo_address.hpp"
#include "collectives/paths/gloo/gloo_library.hpp"
#include "collectives/paths/signals_blocked.hpp"

namespace farandole {
namespace {

/// What a goodbye says instead of a culprit's rank within the set.
constexpr std::int64_t in_order = -1;
constexpr std::int64_t silence = -2;

/// How long a member that leaves waits for the others' goodbyes. One that finds the connection closed when it
/// has not read the goodbye yet may never read it: Gloo takes the first failed write for the end.
constexpr std::chrono::milliseconds orderly_leave{500};
constexpr std::chrono::milliseconds last_words{50};
/// How long a member whose connection breaks listens to why.
constexpr std::chrono::milliseconds hearing{20};
constexpr std::chrono::milliseconds between_hearings{1};

/// Where a message is awaited. Gloo takes a shorter message for a whole one, so messages of different lengths
/// never meet: both members wait until their deadline, and learn of it from their goodbyes.
std::uint64_t slot_of(message_phase phase, std::size_t bytes) {
  return std::uint64_t{bytes} << 8 | static_cast<std::uint64_t>(phase);
}
std::uint64_t bytes_of(std::uint64_t slot) {
  return slot >> 8;
}
bool same_phase(std::uint64_t slot, std::uint64_t other) {
  return (slot & 0xff) == (other & 0xff);
}

} // namespace

expected<std::unique_ptr<gloo_worker>> gloo_worker::open(const gloo_options& options) {
  const expected<gloo_open*>& open = load_gloo();
  if (!open)
    return open.error();
  const signals_blocked guard; // Gloo's thread gets none
  std::string why;
  std::unique_ptr<gloo_mesh> mesh{
      (**open)(options.rank, static_cast<int>(options.global_ranks.size()), options.ip.c_str(), why)};
  if (!mesh)
    return error{error_kind::unimplemented, "the gloo path cannot listen on " + options.ip + ": " + why};
  return std::unique_ptr<gloo_worker>{new gloo_worker(options, std::move(mesh))};
}

gloo_worker::gloo_worker(const gloo_options& options, std::unique_ptr<gloo_mesh> mesh)
    : generation_(options.generation), set_(options.set), rank_(options.rank), names_(options.global_ranks),
      mesh_(std::move(mesh)) {}

gloo_worker::~gloo_worker() {
  leave(in_order);
}

std::string gloo_worker::address() const {
  std::vector<std::string> addresses(names_.size());
  for (std::int32_t peer = 0; peer < members(); ++peer)
    if (peer != rank_)
      addresses[static_cast<std::size_t>(peer)] = mesh_->address(peer);
  return packed_addresses(addresses);
}

std::string gloo_worker::name_of(std::int32_t peer) const {
  return "rank " + std::to_string(names_[static_cast<std::size_t>(peer)]);
}

// ---- the beginning -------------------------------------------------------------------------------

error gloo_worker::connect(std::span<const std::string> addresses, const limits& until) {
  assert(addresses.size() == names_.size() && ears_.empty() && "a worker connects once");
  const gloo_watch::orders orders{[&until] { return until.abort.raised() || clock::now() >= until.deadline; },
                                  [this] { mesh_->close(); }};
  for (std::int32_t peer = 0; peer < members(); ++peer) {
    if (peer == rank_)
      continue;
    const std::string address =
        address_at(addresses[static_cast<std::size_t>(peer)], static_cast<std::size_t>(rank_));
    if (address.empty())
      return fail(
          {error_kind::unimplemented, name_of(peer) + " cannot be reached by Gloo: it announced no address"});
    const std::string why = watch_.over(orders, [&] { return mesh_->connect(peer, address); });
    if (error problem = reason_to_stop(peer, until))
      return fail(problem);
    if (!why.empty())
      return fail(lost(peer, why));
  }
  listen_for_goodbyes();
  return failure_ ? fail(failure_) : greet(until);
}

/// A connection stands when the kernel has it; that the peer's Gloo has it, and that it is the peer's, only a
/// message each way can tell.
error gloo_worker::greet(const limits& until) {
  using greeting = std::array<std::uint64_t, 3>;
  const auto greeting_of = [this](std::int32_t member) {
    return greeting{generation_, set_, static_cast<std::uint64_t>(member)};
  };
  const greeting mine = greeting_of(rank_);
  std::vector<greeting> theirs(names_.size());
  message_ticket ticket;
  for (std::int32_t peer = 0; peer < members(); ++peer)
    if (peer != rank_) {
      receive(peer, message_phase::hello,
              std::as_writable_bytes(std::span{&theirs[static_cast<std::size_t>(peer)], 1}), ticket);
      send(peer, message_phase::hello, std::as_bytes(std::span{&mine, 1}), ticket);
    }
  if (error problem = wait(ticket, until))
    return problem;
  for (std::int32_t peer = 0; peer < members(); ++peer)
    if (peer != rank_ && theirs[static_cast<std::size_t>(peer)] != greeting_of(peer))
      return fail({error_kind::precondition,
                   name_of(peer) + " is in another generation, set or place than announced"});
  return {};
}

// ---- messages ------------------------------------------------------------------------------------

void gloo_worker::send(std::int32_t peer, message_phase phase, std::span<const std::byte> bytes,
                       message_ticket& ticket) {
  std::string why;
  const auto slot = slot_of(phase, bytes.size());
  gloo_message* made = failure_ ? nullptr : mesh_->send(peer, slot, bytes.data(), bytes.size(), why);
  keep({std::unique_ptr<gloo_message>(made), &ticket, peer, slot, false}, why);
}

void gloo_worker::receive(std::int32_t peer, message_phase phase, std::span<std::byte> bytes,
                          message_ticket& ticket) {
  std::string why;
  const auto slot = slot_of(phase, bytes.size());
  gloo_message* made = failure_ ? nullptr : mesh_->receive(peer, slot, bytes.data(), bytes.size(), why);
  keep({std::unique_ptr<gloo_message>(made), &ticket, peer, slot, true}, why);
}

/// After a failure nothing more is begun, and what was asked for will never be done: the next wait() tells.
void gloo_worker::keep(record begun, const std::string& why) {
  ++begun.ticket->pending;
  if (begun.message)
    under_way_.push_back(std::move(begun));
  else if (!failure_)
    failure_ = judge(begun.peer, why);
}

error gloo_worker::wait(const message_ticket& ticket, const limits& until) {
  while (ticket.pending != 0) {
    if (failure_)
      return fail(failure_);
    const auto next = std::find_if(under_way_.begin(), under_way_.end(),
                                   [&](const record& one) { return one.ticket == &ticket; });
    assert(next != under_way_.end() && "what is not under way has failed");
    const std::string why = wait_for(*next->message, next->peer, until);
    if (!why.empty()) {
      spoken_ = {next->slot, next->peer, next->receives, in_order};
      error problem = reason_to_stop(next->peer, until);
      return fail(problem ? problem : judge(next->peer, why));
    }
    --next->ticket->pending;
    under_way_.erase(next);
  }
  return {};
}

std::string gloo_worker::wait_for(gloo_message& message, std::int32_t peer, const limits& until) {
  const gloo_watch::orders orders{[&] {
                                    return until.abort.raised() || clock::now() >= until.deadline ||
                                           named_culprit() >= 0 ||
                                           ears_[static_cast<std::size_t>(peer)].message->broken();
                                  },
                                  [&message] { message.give_up(); }};
  // The watch comes first: a wait that Gloo ends itself leaves no connection for a goodbye.
  constexpr std::chrono::seconds late{1};
  const auto patience = std::chrono::ceil<std::chrono::milliseconds>(until.deadline - clock::now()) + late;
  return watch_.over(orders,
                     [&] { return message.wait(std::max<std::chrono::milliseconds>(patience, late)); });
}

error gloo_worker::reason_to_stop(std::int32_t peer, const limits& until) const {
  if (until.abort.raised())
    return {error_kind::disconnected,
            "the operation was aborted: its generation or its process set has ended"};
  if (clock::now() >= until.deadline)
    return {error_kind::timed_out, "the gloo path waited in vain for " + name_of(peer) + ": " +
                                       until.deadline_setting + " has passed"};
  return {};
}

// ---- who is to blame -----------------------------------------------------------------------------

std::int64_t gloo_worker::ear::said() const {
  return std::atomic_ref(heard.culprit).load(std::memory_order_acquire);
}

void gloo_worker::listen_for_goodbyes() {
  ears_.resize(names_.size());
  for (std::int32_t peer = 0; peer < members(); ++peer) {
    ear& each = ears_[static_cast<std::size_t>(peer)];
    each.heard.culprit = silence;
    if (peer == rank_)
      continue;
    std::string why;
    each.message.reset(mesh_->receive(peer, slot_of(message_phase::goodbye, sizeof(goodbye)),
                                      reinterpret_cast<std::byte*>(&each.heard), sizeof each.heard, why));
    if (!each.message && !failure_)
      failure_ = lost(peer, why);
  }
}

std::int32_t gloo_worker::named_culprit() const {
  for (const ear& each : ears_)
    if (const std::int64_t said = each.said(); said >= 0 && said < members())
      return static_cast<std::int32_t>(said);
  return -1;
}

error gloo_worker::lost(std::int32_t culprit, const std::string& why) {
  culprit_ = culprit;
  return {error_kind::disconnected, name_of(culprit) + " is lost to the gloo path: " + why};
}

error gloo_worker::judge_by_goodbyes(std::int32_t peer) {
  if (const std::int32_t culprit = named_culprit(); culprit >= 0) {
    const bool itself = ears_[static_cast<std::size_t>(culprit)].said() == culprit;
    return lost(culprit, itself ? "it gave the operation up" : "another member has lost it");
  }
  if (ears_[static_cast<std::size_t>(peer)].said() == in_order)
    return lost(peer, "it has left the job");
  return {};
}

error gloo_worker::judge(std::int32_t peer, const std::string& why) {
  if (ears_.empty())
    return lost(peer, why);
  for (const auto until = clock::now() + hearing; clock::now() < until;) {
    if (error known = judge_by_goodbyes(peer))
      return known;
    std::this_thread::sleep_for(between_hearings);
  }
  // Who came late finds several connections closed, and nobody to ask which was the first.
  error guess = lost(peer, why);
  for (std::int32_t other = 0; other < members(); ++other) {
    const ear& its = ears_[static_cast<std::size_t>(other)];
    if (other != peer && its.message && its.said() == silence && its.message->broken())
      guess.text = name_of(other) + ", " + guess.text;
  }
  return guess;
}

// ---- the end -------------------------------------------------------------------------------------

void gloo_worker::give_up(const error& why) {
  fail(failure_ ? failure_ : why);
}

error gloo_worker::fail(const error& why) {
  failure_ = why;
  leave(culprit_ >= 0 ? culprit_ : rank_);
  return failure_;
}

/// Where the peer waits for a message that this member has under way too, in the same phase and the other
/// direction, the two are meant for each other.
std::string gloo_worker::difference_of_lengths() const {
  for (const record& own : under_way_) {
    const ear& its = ears_[static_cast<std::size_t>(own.peer)];
    const goodbye& other = its.heard;
    if (its.said() == silence || other.peer != rank_ || (other.receives != 0) == own.receives ||
        !same_phase(own.slot, other.slot))
      continue;
    const std::uint64_t sent = bytes_of(own.receives ? other.slot : own.slot);
    const std::uint64_t expected = bytes_of(own.receives ? own.slot : other.slot);
    if (sent != expected)
      return "; " + name_of(own.receives ? own.peer : rank_) + " sent " + std::to_string(sent) +
             " bytes where " + std::to_string(expected) + " were expected";
  }
  return {};
}

void gloo_worker::leave(std::int64_t culprit) {
  if (!mesh_)
    return;
  if (!ears_.empty())
    say_goodbye(culprit);
  if (failure_)
    failure_.text += difference_of_lengths();
  mesh_->close();
  under_way_.clear();
  ears_.clear();
  mesh_.reset();
  if (!failure_)
    failure_ = {error_kind::disconnected, "the gloo path is closed"};
}

void gloo_worker::say_goodbye(std::int64_t culprit) {
  spoken_.culprit = culprit;
  const auto silent = [](const ear& its) {
    return its.message && its.said() == silence && !its.message->broken();
  };
  std::vector<std::unique_ptr<gloo_message>> words;
  for (std::int32_t peer = 0; peer < members(); ++peer) {
    std::string why;
    if (peer != rank_)
      words.emplace_back(mesh_->send(peer, slot_of(message_phase::goodbye, sizeof(goodbye)),
                                     reinterpret_cast<const std::byte*>(&spoken_), sizeof spoken_, why));
  }
  const auto until = clock::now() + (culprit == in_order ? orderly_leave : last_words);
  for (const auto& each : words)
    if (each)
      each->wait(std::max(std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()),
                          std::chrono::milliseconds{0}));
  while (clock::now() < until && std::any_of(ears_.begin(), ears_.end(), silent))
    std::this_thread::sleep_for(between_hearings);
  mesh_->close(); // before the words go
}

} // namespace farandole
