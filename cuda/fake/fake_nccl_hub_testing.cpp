#include "cuda/fake/fake_nccl_hub_testing.hpp"

#include <nccl.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>

#include "cuda/fake/fake_nccl_calls_testing.hpp"

#define FAKE extern "C" __attribute__((visibility("default")))

namespace fake_nccl {

namespace {

std::atomic<unsigned> introductions{0};

/// From this version on, NCCL lets several ranks of a communicator use one device.
constexpr int first_with_shared_devices = 23000;

frame refusal(int result, const std::string& text) {
  frame_header header;
  header.kind = frame_kind::refusal;
  header.op = result;
  return frame(header, std::vector<unsigned char>(text.begin(), text.end()));
}

std::string number_pair(const char* subject, int left, int right) {
  return std::string(subject) + " " + std::to_string(left) + " and " + std::to_string(right);
}

/// Why two ranks cannot be in one communicator; empty if they can.
std::string conflict(const introduction& left, const introduction& right) {
  if (left.rank == right.rank)
    return "two processes or threads have rank " + std::to_string(left.rank);
  const auto ranks = number_pair("ranks", left.rank, right.rank);
  if (left.ranks != right.ranks)
    return ranks + " state different sizes of the communicator: " + std::to_string(left.ranks) + " and " +
           std::to_string(right.ranks);
  if (left.version != right.version)
    return ranks + " have different versions of NCCL: " + std::to_string(left.version) + " and " +
           std::to_string(right.version);
  if (left.device == right.device && std::string_view(left.host) == right.host &&
      left.version < first_with_shared_devices)
    return "duplicate GPU: " + ranks + " use device " + std::to_string(left.device) + " of host " + left.host;
  return {};
}

} // namespace

hub::hub(int listening) : listening_(listening), stop_(std::make_unique<wake_descriptor>()) {
  thread_ = std::thread([this] { serve(); });
}

hub::~hub() {
  is_stopping_ = true;
  {
    const std::lock_guard lock(mutex_);
    if (stop_ != nullptr)
      stop_->wake();
  }
  thread_.join();
  if (listening_ >= 0)
    ::close(listening_);
}

void hub::serve() {
  while (!is_stopping_ && !is_finished())
    if (wait())
      accept();
  members_.clear(); // closes the sockets
  if (listening_ >= 0)
    ::close(listening_);
  listening_ = -1;
  const std::lock_guard lock(mutex_);
  stop_.reset();
  has_ended_ = true;
}

/// Waits for sockets, and handles the frames of members. Returns whether a peer waits to be accepted.
bool hub::wait() {
  std::vector<pollfd> sockets{{stop_->descriptor(), POLLIN, 0}, {listening_, POLLIN, 0}};
  std::vector<member*> polled;
  for (const auto& peer : members_)
    if (!peer->is_closed) {
      const auto events = static_cast<short>(POLLIN | (peer->socket.has_unsent() ? POLLOUT : 0));
      sockets.push_back({peer->socket.descriptor(), events, 0});
      polled.push_back(peer.get());
    }
  if (::poll(sockets.data(), sockets.size(), -1) < 0)
    return false; // interrupted
  for (std::size_t i = 0; i < polled.size(); ++i) {
    auto& from = *polled[i];
    if (sockets[i + 2].revents == 0)
      continue;
    const bool is_open = from.socket.receive([&](frame received) { handle(from, std::move(received)); });
    if (!is_open || !from.socket.send())
      part_from(from);
  }
  return (sockets[1].revents & POLLIN) != 0;
}

void hub::accept() {
  const int connected = listening_ >= 0 ? accept_own_user(listening_) : -1;
  if (connected >= 0)
    members_.push_back(std::make_unique<member>(connected));
}

void hub::handle(member& from, frame received) {
  switch (received.header.kind) {
  case frame_kind::hello:
    introduce(from, received);
    break;
  case frame_kind::leave:
    from.has_left = true;
    break;
  default:
    if (matches_ != nullptr)
      if (const auto text = matches_->begin(static_cast<std::size_t>(from.facts.rank), std::move(received));
          !text.empty())
        report_misuse("operations of two ranks do not match and never end: " + text);
  }
}

void hub::introduce(member& from, const frame& received) {
  if (from.has_introduced || received.header.bytes != sizeof from.facts)
    return;
  std::memcpy(&from.facts, received.data->data(), sizeof from.facts);
  from.facts.host[sizeof from.facts.host - 1] = '\0';
  from.has_introduced = true;
  ++introductions;
  int result = ncclSuccess;
  const auto text = disagreement(result);
  if (!text.empty()) {
    has_refused_ = true;
    tell_all(refusal(result, text));
    return;
  }
  if (!has_refused_ && introduced() == from.facts.ranks)
    complete();
}

std::string hub::disagreement(int& result) const {
  result = ncclInvalidUsage;
  for (const auto& left : members_)
    for (const auto& right : members_)
      if (left != right && left->has_introduced && right->has_introduced &&
          left->facts.rank <= right->facts.rank)
        if (auto text = conflict(left->facts, right->facts); !text.empty())
          return text;
  result = ncclRemoteError;
  for (const auto& peer : members_)
    if (peer->has_introduced && peer->is_closed)
      return "rank " + std::to_string(peer->facts.rank) + " is gone";
  return {};
}

void hub::complete() {
  for (const auto& peer : members_)
    if (peer->has_introduced)
      by_rank_.push_back(peer.get());
  std::ranges::sort(by_rank_, {}, [](const auto* peer) { return peer->facts.rank; });
  ::close(listening_); // no more ranks may come
  listening_ = -1;
  matches_ = std::make_unique<matches>(by_rank_.size(), [this](std::size_t rank, frame answer) {
    auto& target = *by_rank_[rank];
    if (target.is_closed)
      return;
    target.socket.push(std::move(answer));
    target.socket.send(); // if it is closed, that is seen when it is read
  });
  frame_header welcome;
  welcome.kind = frame_kind::welcome;
  tell_all(frame(welcome));
}

void hub::part_from(member& lost) {
  lost.is_closed = true;
  if (lost.has_left || !lost.has_introduced)
    return;
  if (matches_ == nullptr) {
    has_refused_ = true;
    tell_all(refusal(ncclRemoteError, "rank " + std::to_string(lost.facts.rank) + " is gone"));
    return;
  }
  frame_header news;
  news.kind = frame_kind::lost;
  news.peer = lost.facts.rank;
  tell_all(frame(news));
}

void hub::tell_all(const frame& news) {
  for (const auto& peer : members_)
    if (!peer->is_closed) {
      peer->socket.push(news);
      peer->socket.send(); // if it is closed, that is seen when it is read
    }
}

std::ptrdiff_t hub::introduced() const {
  return std::ranges::count_if(members_, [](const auto& peer) { return peer->has_introduced; });
}

/// After a refusal the hub stays for the ranks that come late: they are told the reason, too.
bool hub::is_finished() const {
  const auto has_place = [this](const auto& peer) {
    return peer->is_closed && (!peer->has_introduced || introduced() >= peer->facts.ranks);
  };
  return introduced() > 0 && std::ranges::all_of(members_, has_place);
}

namespace {

/// Never destroyed: other threads may call NCCL while the process ends.
struct all_hubs {
  std::mutex mutex;
  std::vector<std::unique_ptr<hub>> hubs;
};

all_hubs& hubs() {
  static auto& all = *new all_hubs;
  return all;
}

} // namespace

std::string start_hub() {
  auto name = random_name();
  const int listening = name.empty() ? -1 : listen_at(name);
  if (listening < 0)
    return {};
  auto& all = hubs();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.hubs, [](const auto& old) { return old->has_ended(); });
  all.hubs.push_back(std::make_unique<hub>(listening));
  return name;
}

void end_hubs() {
  auto& all = hubs();
  std::vector<std::unique_ptr<hub>> ended;
  const std::lock_guard lock(all.mutex);
  ended.swap(all.hubs);
}

} // namespace fake_nccl

/// How many ranks have ever introduced themselves to the hubs of this process.
FAKE unsigned fakeNcclIntroductions() {
  return fake_nccl::introductions;
}
