// The module: the only code that calls libgloo, and linked to it.
#include <memory>
#include <stdexcept>
#include <vector>

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>

#include "collectives/transport/gloo/gloo_mesh.hpp"

namespace farandole {
namespace {

using std::chrono::milliseconds;

/// Gloo requires a time limit of its own. Callers pass a shorter one to each wait.
constexpr std::chrono::hours longest{20};

template <class Act>
std::string told(const Act& act) {
  try {
    act();
    return {};
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

class message final : public gloo_message {
public:
  message(gloo::transport::Context& context, std::byte* memory, std::size_t bytes, bool receives)
      : buffer_(context.createUnboundBuffer(memory, bytes)), receives_(receives) {}

  void begin(int peer, std::uint64_t slot) {
    if (receives_)
      buffer_->recv(peer, slot, 0, buffer_->size);
    else
      buffer_->send(peer, slot, 0, buffer_->size);
  }

  std::string wait(milliseconds patience) override {
    return told([&] {
      if (!(receives_ ? buffer_->waitRecv(nullptr, patience) : buffer_->waitSend(nullptr, patience)))
        throw std::runtime_error("the wait was ended");
    });
  }

  void give_up() override {
    if (receives_)
      buffer_->abortWaitRecv();
    else
      buffer_->abortWaitSend();
  }

  bool broken() override {
    give_up();
    try {
      receives_ ? buffer_->waitRecv(nullptr, longest) : buffer_->waitSend(nullptr, longest);
      return false; // the wait was ended by give_up(), or the message is done
    } catch (const std::exception&) {
      return true;
    }
  }

private:
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  const bool receives_;
};

class mesh final : public gloo_mesh {
public:
  mesh(int rank, int members, const char* ip)
      : context_(gloo::transport::tcp::CreateDevice(ip)->createContext(rank, members)) {
    context_->setTimeout(longest);
    for (int peer = 0; peer < members; ++peer)
      if (peer != rank)
        context_->createPair(peer);
    alarm_ = context_->createUnboundBuffer(nullptr, 0);
  }

  std::string address(int peer) const override {
    const std::vector<char> bytes = context_->getPair(peer)->address().bytes();
    return {bytes.begin(), bytes.end()};
  }

  std::string connect(int peer, const std::string& address) override {
    return told([&] { context_->getPair(peer)->connect({address.begin(), address.end()}); });
  }

  gloo_message* send(int peer, std::uint64_t slot, const std::byte* memory, std::size_t bytes,
                     std::string& reason) override {
    return post(peer, slot, const_cast<std::byte*>(memory), bytes, false, reason); // send only reads it
  }

  gloo_message* receive(int peer, std::uint64_t slot, std::byte* memory, std::size_t bytes,
                        std::string& reason) override {
    return post(peer, slot, memory, bytes, true, reason);
  }

  /// A wait that times out breaks every connection of its context. Gloo offers no other way to close them.
  void close() override {
    told([&] { alarm_->waitRecv(nullptr, milliseconds{0}); });
  }

private:
  gloo_message* post(int peer, std::uint64_t slot, std::byte* memory, std::size_t bytes, bool receives,
                     std::string& reason) {
    std::unique_ptr<message> made;
    reason = told([&] {
      made = std::make_unique<message>(*context_, memory, bytes, receives);
      made->begin(peer, slot);
    });
    return reason.empty() ? made.release() : nullptr;
  }

  std::shared_ptr<gloo::transport::Context> context_;     ///< holds its device
  std::unique_ptr<gloo::transport::UnboundBuffer> alarm_; ///< never receives a message
};

} // namespace
} // namespace farandole

extern "C" __attribute__((visibility("default"))) farandole::gloo_mesh*
farandole_gloo_open(int rank, int members, const char* ip, std::string& reason) {
  std::unique_ptr<farandole::mesh> made;
  reason = farandole::told([&] { made = std::make_unique<farandole::mesh>(rank, members, ip); });
  return made.release();
}
