// Members of a set as real processes, for tests of paths that need them. Each member is a forked child that
// opens the set's data paths. The parent passes path addresses and words between the children and loads no
// library itself.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/transport/forked_words_testing.hpp"
#include "collectives/transport/registry/data_paths.hpp"

namespace farandole::testing {

/// The state of a member in its child process.
struct forked_member {
  set_view set;
  int control;
  abort_token abort{};
  std::unique_ptr<data_paths> paths{};
  std::uint64_t sequence = 0;

  std::size_t rank() const { return static_cast<std::size_t>(set.rank); }
  std::size_t size() const { return set.members.size(); }
  deadline_and_abort deadline() const {
    return {abort, std::chrono::steady_clock::now() + std::chrono::minutes(4),
            "patience (TEST_PATIENCE) = 240 s"};
  }
  void say(const std::string& word) const { put(control, word); }
  std::string hear() const {
    std::string word;
    return take(control, word) ? word : "(dead)";
  }

  /// Empty if the member has no path addresses.
  path_addresses heard_path_addresses() const {
    const auto word = hear();
    const auto message = envelope::parse(std::as_bytes(std::span(word)));
    const auto told = message ? decode_path_addresses(*message) : expected<path_addresses>(message.error());
    return told ? *told : path_addresses{};
  }

  /// Opens the paths and connects them to the other members. Returns an error text; empty on success.
  std::string join(const path_options& options) {
    auto opened = data_paths::open(set, options);
    if (!opened)
      return opened.error().text;
    paths = std::move(*opened);
    const auto message = encode(address{}, paths->introduce());
    say({reinterpret_cast<const char*>(message.bytes().data()), message.bytes().size()});
    std::vector<path_addresses> all;
    for (std::size_t rank = 0; rank < size(); ++rank)
      all.push_back(heard_path_addresses());
    return paths->connect(all, deadline()).text;
  }

  error run(work bundle) {
    bundle.sequence = sequence++;
    return paths->choose(bundle).run(bundle, deadline()).error;
  }
};

/// A job of forked members, one for each of `hosts`, which names the host of each. The body returns an error
/// text, empty on success, which the child sends as its last word.
class forked_members {
public:
  using body = std::function<std::string(forked_member&)>;

  forked_members(const std::vector<std::string>& hosts, const path_options& options, const body& act) {
    set_view set{7, 3, 0, {}};
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      member member_info;
      member_info.rank = static_cast<std::int32_t>(rank);
      member_info.host = hosts[rank];
      set.members.push_back(member_info);
    }
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      set.rank = static_cast<std::int32_t>(rank);
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw std::runtime_error("no socket pair");
      const pid_t child = ::fork();
      if (child == 0) {
        for (int other : sockets_)
          ::close(other);
        ::close(ends[0]);
        live(set, ends[1], options, act);
      }
      ::close(ends[1]);
      sockets_.push_back(ends[0]);
      children_.push_back(child);
    }
    std::vector<std::string> words;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      words.push_back(hear(rank));
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      for (const auto& word : words)
        tell(rank, word);
  }
  ~forked_members() {
    for (int socket : sockets_)
      ::close(socket);
    for (pid_t child : children_)
      ::waitpid(child, nullptr, 0);
  }
  forked_members(const forked_members&) = delete;
  forked_members& operator=(const forked_members&) = delete;

  std::string hear(std::size_t rank) {
    std::string word;
    return take(sockets_[rank], word) ? word : "(dead)";
  }
  void tell(std::size_t rank, const std::string& word) { put(sockets_[rank], word); }

private:
  [[noreturn]] static void live(const set_view& set, int control, const path_options& options,
                                const body& act) {
    ::signal(SIGPIPE, SIG_IGN); // as the lane of a process set does
    forked_member self{set, control};
    std::string answer = self.join(options);
    if (answer.empty())
      answer = act(self);
    self.paths.reset();
    self.say(answer);
    ::_exit(0);
  }

  std::vector<int> sockets_;
  std::vector<pid_t> children_;
};

} // namespace farandole::testing
