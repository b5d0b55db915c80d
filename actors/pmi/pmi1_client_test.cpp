// The client talks to a process manager that follows a script, at the other end of a socket pair.
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <future>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/pmi/pmi1_client.hpp"
#include "messages/values/descriptor.hpp"

using namespace farandole;
using Catch::Contains;

namespace {

using clock = std::chrono::steady_clock;

/// A request that is expected, and what is answered. An empty answer: none. The texts outlive the process manager.
struct step {
  std::string_view request;
  std::string_view answer;
};

const step init = {"cmd=init pmi_version=1 pmi_subversion=1\n",
                   "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n"};
const step get_maxes = {"cmd=get_maxes\n", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"};
const step get_name = {"cmd=get_my_kvsname\n", "cmd=my_kvsname rc=0 kvsname=kvs_1\n"};

/// The steps of connect(), then `more`.
std::vector<step> greeting_and(std::initializer_list<step> more) {
  std::vector<step> steps = {init, get_maxes, get_name};
  steps.insert(steps.end(), more);
  return steps;
}

std::string read_request(int socket) {
  std::string text;
  char c = 0;
  while (text.empty() || text.back() != '\n')
    if (::recv(socket, &c, 1, 0) != 1)
      return text;
    else
      text += c;
  return text;
}

class scripted_manager {
public:
  explicit scripted_manager(std::vector<step> lines) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    own_ = descriptor(ends[0]);
    client_ = descriptor(ends[1]);
    served_ = std::async(std::launch::async, [this, lines = std::move(lines)] {
      for (const auto& [request, answer] : lines) {
        if (const auto found = read_request(own_.get()); found != request)
          return "got " + found + "instead of " + std::string(request);
        // Replies arrive in pieces.
        for (std::size_t at = 0; at < answer.size(); at += 7)
          ::send(own_.get(), answer.data() + at, std::min<std::size_t>(7, answer.size() - at), MSG_NOSIGNAL);
      }
      return std::string();
    });
  }
  ~scripted_manager() { ::shutdown(client_.get(), SHUT_RDWR); }

  int socket() const { return client_.get(); }
  /// What differed from the script; empty if nothing did.
  std::string difference() { return served_.get(); }
  void hang_up() { own_.close(); }

private:
  descriptor own_, client_;
  std::future<std::string> served_;
};

clock::time_point soon() {
  return clock::now() + std::chrono::minutes(1);
}

std::string problem_of(const std::vector<step>& lines) {
  scripted_manager manager(lines);
  const auto client = pmi1_client::connect(manager.socket(), 0, 2, soon());
  return client ? "connected" : client.error().text;
}

std::string problem_after_init(std::string_view answer) {
  return problem_of({step{init.request, answer}});
}

} // namespace

TEST_CASE("a value that one process put is read under the key of that process", "[pmi]") {
  scripted_manager manager(greeting_and(
      {{"cmd=put kvsname=kvs_1 key=farandole-job1-1 value=a;b\n", "cmd=put_result rc=0\n"},
       {"cmd=barrier_in\n", "cmd=barrier_out tag=0\n"},
       {"cmd=get kvsname=kvs_1 key=farandole-job1-0\n", "cmd=get_result rc=0 msg=success value=c\n"},
       {"cmd=finalize\n", "cmd=finalize_ack rc=0\n"}}));
  auto client = pmi1_client::connect(manager.socket(), 1, 2, soon());
  REQUIRE(client);
  CHECK((*client)->rank() == 1);
  CHECK((*client)->size() == 2);
  CHECK_FALSE((*client)->put("job1", "a;b", soon()));
  CHECK_FALSE((*client)->fence(soon()));
  const auto value = (*client)->get(0, "job1", soon());
  REQUIRE(value);
  CHECK(*value == "c");
  (*client)->finish(soon());
  CHECK(manager.difference().empty());
}

TEST_CASE("a process manager that does not answer is given up at the deadline, and not asked again",
          "[pmi]") {
  scripted_manager manager(greeting_and({{"cmd=barrier_in\n", ""}}));
  auto client = pmi1_client::connect(manager.socket(), 0, 2, soon());
  REQUIRE(client);
  CHECK((*client)->fence(clock::now() + std::chrono::milliseconds(1)).kind == error_kind::timed_out);
  CHECK((*client)->fence(soon()).kind == error_kind::timed_out);
  CHECK_FALSE((*client)->get(0, "job1", soon()));
  (*client)->finish(soon());
  CHECK(manager.difference().empty());
}

TEST_CASE("a process manager that ends or breaks the protocol fails the request with the reason", "[pmi]") {
  CHECK_THAT(problem_after_init("cmd=response_to_init rc=-1 pmi_version=2\n"), Contains("code -1"));
  CHECK_THAT(problem_after_init("cmd=response_to_init rc=0 pmi_version=2\n"), Contains("version 2 of PMI"));
  CHECK_THAT(problem_after_init("HTTP/1.1 400 Bad Request\n"), Contains("key=value"));
  CHECK_THAT(problem_after_init("cmd=barrier_out\n"), Contains("'response_to_init' was expected"));
  const std::string endless(most_pmi_line_bytes + 100, 'x');
  CHECK_THAT(problem_after_init(endless), Contains("more than 8192 bytes"));
  CHECK_THAT(problem_of({init, get_maxes, step{get_name.request, "cmd=my_kvsname rc=0\n"}}),
             Contains("no space of keys"));
  scripted_manager manager(greeting_and({}));
  auto client = pmi1_client::connect(manager.socket(), 0, 2, soon());
  REQUIRE(client);
  CHECK(manager.difference().empty());
  manager.hang_up();
  CHECK_THAT((*client)->fence(soon()).text, Contains("PMI_FD"));
}

TEST_CASE("a value that the process manager cannot carry is refused before it is sent", "[pmi]") {
  scripted_manager manager(greeting_and({}));
  auto client = pmi1_client::connect(manager.socket(), 0, 2, soon());
  REQUIRE(client);
  CHECK_THAT((*client)->put("a", std::string(1024, 'x'), soon()).text,
             Contains("1024 bytes") && Contains("1024"));
  CHECK((*client)->put("a", "two words", soon()).kind == error_kind::invalid_argument);
}

TEST_CASE("a descriptor that is closed or no socket is refused with its number", "[pmi]") {
  const descriptor file{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  for (const int number : {file.get(), -1}) {
    const auto client = pmi1_client::connect(number, 0, 2, soon());
    REQUIRE_FALSE(client);
    CHECK_THAT(client.error().text, Contains("the descriptor " + std::to_string(number) + " (PMI_FD)"));
  }
}

TEST_CASE("nothing is sent at the end if the descriptor has become another socket", "[pmi]") {
  scripted_manager manager(greeting_and({}));
  auto client = pmi1_client::connect(manager.socket(), 0, 2, soon());
  REQUIRE(client);
  std::array<int, 2> others{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others.data()) == 0);
  const descriptor own(others[0]), other(others[1]);
  REQUIRE(::dup2(other.get(), manager.socket()) == manager.socket());
  (*client)->finish(soon());
  char c = 0;
  CHECK(::recv(own.get(), &c, 1, MSG_DONTWAIT) == -1);
}
