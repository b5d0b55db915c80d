// Whole jobs in one process: a rendezvous and several runtimes, each with a loop, a lane and a window of its
// own.
#include <catch2/catch.hpp>

#include <future>
#include <thread>

#include "actors/kit/loop.hpp"
#include "actors/rendezvous.hpp"
#include "bindings/cxx/farandole.hpp"

using namespace farandole;

namespace {

const std::string secret = "a secret that only this test knows";

/// A job of `size` members: start() brings them up, each on a thread of its own, and `each` runs there.
class job {
public:
  explicit job(std::int32_t size, std::map<std::string, std::string> extra = {})
      : size_(size), extra_(std::move(extra)) {
    rendezvous_options how;
    how.size = size;
    how.links.credentials = std::make_shared<const tls_credentials>(secret);
    auto service = start_rendezvous(system_.get(), how);
    REQUIRE(service);
    actor_ = service->actor;
    port_ = service->port;
  }
  ~job() { caf::anon_send(actor_, close_atom::value); }

  options options_of(std::int32_t rank) const {
    options how;
    how.read_environment = false;
    how.secret = secret;
    how.settings = extra_;
    how.settings["HOROVOD_RANK"] = std::to_string(rank);
    how.settings["HOROVOD_SIZE"] = std::to_string(size_);
    how.settings["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = "127.0.0.1";
    how.settings["HOROVOD_GLOO_RENDEZVOUS_PORT"] = std::to_string(port_);
    return how;
  }

  template <class Each>
  void run(Each each) {
    std::vector<std::thread> threads;
    std::vector<std::string> problems(static_cast<std::size_t>(size_));
    for (std::int32_t rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        auto member = runtime::start(options_of(rank));
        if (!member) {
          problems[static_cast<std::size_t>(rank)] = member.error().text;
          return;
        }
        each(**member);
      });
    for (auto& thread : threads)
      thread.join();
    for (auto& problem : problems)
      CHECK(problem == "");
  }

private:
  std::int32_t size_;
  std::map<std::string, std::string> extra_;
  loop_system system_;
  rendezvous_actor actor_;
  std::uint16_t port_ = 0;
};

struct floats {
  std::vector<float> in, out;
  submission ask(std::string_view name, reduce_op op = reduce_op::sum) {
    out.resize(in.size());
    submission what;
    what.name = name;
    what.signature.reduce_op = op;
    what.signature.shape = {static_cast<std::int64_t>(in.size())};
    what.input = reinterpret_cast<const std::byte*>(in.data());
    what.output = reinterpret_cast<std::byte*>(out.data());
    return what;
  }
};

// Catch's assertions are not for several threads: members report, the test's own thread checks.
std::string allreduce_rounds(runtime& member, const std::string& name, std::size_t count, int rounds) {
  floats tensor;
  for (int round = 0; round < rounds; ++round) {
    tensor.in.assign(count, static_cast<float>(member.rank() + 1 + round));
    auto asked = member.submit(tensor.ask(name));
    if (!asked)
      return asked.error().text;
    if (auto problem = asked->wait())
      return problem.text;
    auto size = member.size();
    auto wanted = static_cast<float>(size * (size + 1) / 2 + size * round);
    for (auto value : tensor.out)
      if (value != wanted)
        return name + ": round " + std::to_string(round) + " gave " + std::to_string(value);
  }
  return {};
}

} // namespace

TEST_CASE("a job of one needs no rendezvous and still scales") {
  options how;
  how.read_environment = false;
  auto member = runtime::start(how);
  REQUIRE(member);
  floats tensor;
  tensor.in = {1, 2, 3};
  auto what = tensor.ask("t", reduce_op::average);
  what.signature.postscale = 2;
  auto asked = (*member)->submit(what);
  REQUIRE(asked);
  CHECK_FALSE(asked->wait());
  CHECK(tensor.out == std::vector<float>{2, 4, 6});
}

TEST_CASE("members of one job agree, by the leader, by ids and by the board") {
  auto size = GENERATE(2, 3);
  job together(size);
  std::vector<std::string> said(static_cast<std::size_t>(size));
  std::vector<std::uint64_t> boarded(static_cast<std::size_t>(size));
  together.run([&](runtime& member) {
    auto& problem = said[static_cast<std::size_t>(member.rank())];
    problem = allreduce_rounds(member, "small", 5, 8);
    if (problem.empty())
      problem = allreduce_rounds(member, "large", 300'001, 4);
    boarded[static_cast<std::size_t>(member.rank())] = member.count().on_board;
  });
  for (auto& problem : said)
    CHECK(problem == "");
  for (auto count : boarded)
    CHECK(count > 0);
}

TEST_CASE("two runtimes of two jobs live in one process") {
  job first(2), second(2);
  std::vector<std::string> said(4);
  std::thread other([&] {
    second.run([&](runtime& member) {
      said[2 + static_cast<std::size_t>(member.rank())] = allreduce_rounds(member, "x", 1000, 5);
    });
  });
  first.run([&](runtime& member) {
    said[static_cast<std::size_t>(member.rank())] = allreduce_rounds(member, "x", 1000, 5);
  });
  other.join();
  for (auto& problem : said)
    CHECK(problem == "");
}

TEST_CASE("ranks that disagree fail that tensor on all of them, and the job goes on") {
  job together(2);
  std::vector<error> mismatch(2);
  std::vector<std::string> after(2);
  together.run([&](runtime& member) {
    auto rank = static_cast<std::size_t>(member.rank());
    floats tensor;
    tensor.in.assign(3 + rank, 1.0f);
    if (auto asked = member.submit(tensor.ask("uneven")))
      mismatch[rank] = asked->wait();
    after[rank] = allreduce_rounds(member, "even", 3, 2);
  });
  for (auto& problem : mismatch) {
    CHECK(problem.kind == error_kind::precondition);
    CHECK_THAT(problem.text, Catch::Contains("uneven") && Catch::Contains("[3]") && Catch::Contains("[4]"));
  }
  for (auto& problem : after)
    CHECK(problem == "");
}

TEST_CASE("an operation taken back ends aborted on every member") {
  job together(2);
  std::vector<error> ends(2);
  together.run([&](runtime& member) {
    auto rank = static_cast<std::size_t>(member.rank());
    floats tensor, go;
    tensor.in = {1};
    go.in = {1};
    if (rank == 0) {
      auto asked = member.submit(tensor.ask("taken back"));
      asked->cancel();
      ends[0] = asked->wait();
      static_cast<void>(member.submit(go.ask("go"))->wait());
      static_cast<void>(member.submit(go.ask("stay"))->wait());
    } else {
      static_cast<void>(member.submit(go.ask("go"))->wait());
      ends[1] = member.submit(tensor.ask("taken back"))->wait();
      static_cast<void>(member.submit(go.ask("stay"))->wait());
    }
  });
  for (auto& problem : ends)
    CHECK(problem.kind == error_kind::aborted);
}

TEST_CASE("shutdown of one member fails what is pending on the others") {
  job together(2);
  error pending_end, later;
  together.run([&](runtime& member) {
    if (member.rank() == 0)
      return;
    floats tensor;
    tensor.in = {1};
    auto asked = member.submit(tensor.ask("never"));
    pending_end = asked ? asked->wait() : asked.error(); // the other may have left already
    if (auto refused = member.submit(tensor.ask("late")); !refused)
      later = refused.error();
  });
  CHECK(pending_end.kind == error_kind::unknown);
  CHECK_THAT(pending_end.text, Catch::Contains("shut down"));
  CHECK(later.kind == error_kind::unknown);
}

TEST_CASE("a caller's deadline passes while the operation goes on") {
  job together(2);
  error first, second;
  together.run([&](runtime& member) {
    floats tensor, go;
    tensor.in = {1};
    go.in = {1};
    if (member.rank() == 0) {
      auto asked = member.submit(tensor.ask("slow"));
      first = asked->wait(std::chrono::steady_clock::now());
      static_cast<void>(member.submit(go.ask("go"))->wait());
      second = asked->wait();
    } else {
      static_cast<void>(member.submit(go.ask("go"))->wait());
      static_cast<void>(member.submit(tensor.ask("slow"))->wait());
    }
  });
  CHECK(first.kind == error_kind::timed_out);
  CHECK(second.kind == error_kind::none);
}

TEST_CASE("a callback comes although nobody waits, on the board too") {
  job together(2);
  std::vector<std::string> said(2);
  std::vector<std::uint64_t> boarded(2);
  together.run([&](runtime& member) {
    auto rank = static_cast<std::size_t>(member.rank());
    said[rank] = allreduce_rounds(member, "known", 4, 4);
    floats tensor;
    tensor.in = {1, 2, 3, 4};
    auto asked = member.submit(tensor.ask("known"));
    std::promise<void> called;
    asked->on_settled([&] { called.set_value(); });
    if (called.get_future().wait_for(std::chrono::seconds{20}) != std::future_status::ready)
      said[rank] += "no callback";
    else if (tensor.out != std::vector<float>{2, 4, 6, 8})
      said[rank] += "wrong result";
    boarded[rank] = member.count().on_board;
  });
  for (auto& problem : said)
    CHECK(problem == "");
  for (auto count : boarded)
    CHECK(count > 0);
}
