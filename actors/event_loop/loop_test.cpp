#include "actors/event_loop/loop.hpp"

#include "actors/event_loop/clock.hpp"
#include "actors/event_loop/pipe_testing.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>

#include "tests/patience.hpp"

namespace farandole {

using testing::patience;
using testing::patience_ms;
using testing::pipe_ends;

namespace {

using namespace std::chrono_literals;

std::string line_of(const std::filesystem::path& file, const std::string& key) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key))
      return line.substr(key.size());
  return {};
}

std::set<std::string> threads() {
  std::set<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator{"/proc/self/task"})
    found.insert(task.path().string());
  return found;
}

/// Runs `action` on the loop and waits for it.
template <class F>
void on_loop(loop& loop, F action) {
  std::promise<void> done;
  loop.post([&] {
    action();
    done.set_value();
  });
  REQUIRE(done.get_future().wait_for(patience) == std::future_status::ready);
}

TEST_CASE("a thread outside the loop gets an answer to its request from an actor on the loop") {
  loop_system system;
  auto doubler = system.get().spawn(
      [](caf::event_based_actor*) -> caf::behavior { return {[](int x) { return 2 * x; }}; });
  caf::scoped_actor self{system.get()};
  int sum = 0;
  for (int i = 0; i < 1000; ++i)
    self->request(doubler, patience, i)
        .receive([&](int x) { sum += x; }, [](const caf::error&) { FAIL("no answer"); });
  CHECK(sum == 999 * 1000);
  caf::anon_send_exit(doubler, caf::exit_reason::user_shutdown);
}

TEST_CASE("a loop system starts one thread, which blocks every signal") {
  auto before = threads();
  loop_system system;
  auto after = threads();
  std::vector<std::string> added;
  for (const auto& task : after)
    if (!before.contains(task))
      added.push_back(task);
  REQUIRE(added.size() == 1);
  on_loop(system.loop(), [] {});
  CHECK(line_of(added[0] + "/comm", "") == "fd-loop");
  // All signals but SIGKILL, SIGSTOP and the two that the C library reserves.
  CHECK(line_of(added[0] + "/status", "SigBlk:\t") == "fffffffe7ffbfeff");
}

TEST_CASE("an idle loop sleeps until the next timer") {
  loop_system system;
  caf::scoped_actor self{system.get()};
  on_loop(system.loop(), [] {}); // the loop has begun
  auto quiet = system.loop().wakeups();
  self->delayed_send(self, 100ms, 1);
  self->receive([](int) {});
  // Setting the timer may wake the loop once; a loop that polls would have woken thousands of times.
  CHECK(system.loop().wakeups() - quiet <= 4);
}

TEST_CASE("delayed messages arrive in the order of their times") {
  loop_system system;
  caf::scoped_actor self{system.get()};
  self->delayed_send(self, 30ms, 3);
  auto other = system.get().spawn([to = caf::actor_cast<caf::actor>(self)](caf::event_based_actor* a) {
    const auto now = a->clock().now(); // the same for both, also if the thread does not run between them
    a->scheduled_send(to, now + 20ms, 2);
    a->scheduled_send(to, now + 10ms, 1);
  });
  std::vector<int> numbers;
  for (int i = 0; i < 3; ++i)
    self->receive([&](int x) { numbers.push_back(x); });
  // On a busy machine, the other actor may set its timers late, so the test compares only those two.
  numbers.erase(std::remove(numbers.begin(), numbers.end(), 3), numbers.end());
  CHECK(numbers == std::vector{1, 2});
}

TEST_CASE("a request without an answer fails at its deadline") {
  loop_system system;
  auto silent_actor = system.get().spawn([](caf::event_based_actor* self) -> caf::behavior {
    self->set_default_handler(caf::skip);
    return {[](double) {}};
  });
  std::promise<std::string> ended;
  system.get().spawn([&](caf::event_based_actor* self) {
    self->request(silent_actor, 5ms, 1)
        .then([&](int) { ended.set_value("answered"); },
              [&, self](const caf::error& reason) { ended.set_value(self->system().render(reason)); });
  });
  auto future = ended.get_future();
  REQUIRE(future.wait_for(patience) == std::future_status::ready);
  CHECK_THAT(future.get(), Catch::Contains("timeout"));
  caf::anon_send_exit(silent_actor, caf::exit_reason::kill);
}

TEST_CASE("a watch reports readable bytes and then the hang-up, and may stop itself") {
  loop_system system;
  auto& loop = system.loop();
  pipe_ends pipe;
  std::promise<std::string> heard;
  std::string text;
  descriptor_watch watch;
  on_loop(loop, [&] {
    watch = loop.watch(std::move(pipe.read), [&](watch_event event) {
      char bytes[16];
      if (event == watch_event::readable) {
        text.append(bytes, static_cast<std::size_t>(::read(watch.get(), bytes, sizeof bytes)));
      } else {
        watch.stop();
        heard.set_value(text);
      }
    });
  });
  REQUIRE(::write(pipe.write.get(), "one", 3) == 3);
  on_loop(loop, [] {});
  REQUIRE(::write(pipe.write.get(), " two", 4) == 4);
  pipe.write.close();
  auto future = heard.get_future();
  REQUIRE(future.wait_for(patience) == std::future_status::ready);
  CHECK(future.get() == "one two");
}

TEST_CASE("a watch that is removed reports nothing, and its descriptor is closed") {
  loop_system system;
  auto& loop = system.loop();
  pipe_ends pipe, later; // both are open at once, so that no descriptor number is reused
  int number = pipe.read.get();
  bool heard = false;
  on_loop(loop, [&] {
    auto watch = loop.watch(std::move(pipe.read), [&](watch_event) { heard = true; });
    REQUIRE(::write(pipe.write.get(), "x", 1) == 1);
  });
  // The second watch reports in a later turn of the loop; the earlier turn has closed the stopped watch.
  std::promise<void> next_turn;
  descriptor_watch second;
  on_loop(loop, [&] {
    second = loop.watch(std::move(later.read), [&](watch_event) {
      second.stop();
      next_turn.set_value();
    });
  });
  later.write.close();
  REQUIRE(next_turn.get_future().wait_for(patience) == std::future_status::ready);
  CHECK_FALSE(heard);
  CHECK(::fcntl(number, F_GETFD) == -1);
}

TEST_CASE("a watch reports a writable descriptor only when asked to") {
  loop_system system;
  auto& loop = system.loop();
  pipe_ends pipe;
  std::promise<watch_event> heard;
  descriptor_watch watch;
  on_loop(loop, [&] {
    watch = loop.watch(std::move(pipe.write), [&](watch_event event) {
      watch.want(false, false);
      heard.set_value(event);
    });
    watch.want(false, true);
  });
  auto future = heard.get_future();
  REQUIRE(future.wait_for(patience) == std::future_status::ready);
  CHECK(future.get() == watch_event::writable);
  on_loop(loop, [&] { watch.stop(); });
}

TEST_CASE("a watch may outlive its loop") {
  pipe_ends pipe;
  int number = pipe.read.get();
  descriptor_watch watch;
  {
    loop_system system;
    on_loop(system.loop(), [&] { watch = system.loop().watch(std::move(pipe.read), [](watch_event) {}); });
  }
  CHECK(::fcntl(number, F_GETFD) != -1);
  watch.stop();
  CHECK(::fcntl(number, F_GETFD) == -1);
}

TEST_CASE("a forked child can close the watched descriptors, so that the peer notices the parent's close") {
  loop_system system;
  pipe_ends pipe, hold;
  descriptor_watch watch;
  on_loop(system.loop(), [&] {
    watch = system.loop().watch(std::move(pipe.write), [](watch_event) {});
    watch.want(false, false);
  });
  auto child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) { // the child lives until its parent closes the `hold` pipe
    system.loop().close_in_child();
    hold.write.close();
    char byte = 0;
    ::_exit(static_cast<int>(::read(hold.read.get(), &byte, 1)));
  }
  on_loop(system.loop(), [&] { watch.stop(); });
  pollfd ended{pipe.read.get(), POLLIN, 0};
  CHECK(::poll(&ended, 1, patience_ms) == 1); // the end of the pipe, with the child alive
  hold.write.close();
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a turn-end callback runs once, after the actors of that turn") {
  loop_system system;
  auto& loop = system.loop();
  std::vector<std::string> order;
  std::promise<void> done;
  system.get().spawn([&](caf::event_based_actor* self) -> caf::behavior {
    loop.at_turn_end([&] {
      order.push_back("end");
      done.set_value();
    });
    self->send(self, 1);
    return {[&order, self](int hops) {
      order.push_back(std::to_string(hops));
      if (hops < 3)
        self->send(self, hops + 1);
      else
        self->quit();
    }};
  });
  REQUIRE(done.get_future().wait_for(patience) == std::future_status::ready);
  CHECK(order == std::vector<std::string>{"1", "2", "3", "end"});
}

TEST_CASE("two loop systems in one process each know their own loop") {
  loop_system first, second;
  CHECK(&first.loop() != &second.loop());
  on_loop(first.loop(), [&] { CHECK((first.loop().is_local() && !second.loop().is_local())); });
  on_loop(second.loop(), [&] { CHECK((second.loop().is_local() && !first.loop().is_local())); });
}

TEST_CASE("no message is lost when many threads send to one actor at once") {
  loop_system system;
  constexpr int senders = 4, number = 5000;
  std::promise<int> all;
  auto counter = system.get().spawn([&](caf::event_based_actor* self) -> caf::behavior {
    auto count = std::make_shared<int>(0);
    return {[=, &all](int) {
      if (++*count == senders * number) {
        all.set_value(*count);
        self->quit();
      }
    }};
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < senders; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < number; ++k)
        caf::anon_send(counter, k);
    });
  for (auto& thread : threads)
    thread.join();
  auto future = all.get_future();
  REQUIRE(future.wait_for(patience) == std::future_status::ready);
  CHECK(future.get() == senders * number);
}

} // namespace
} // namespace farandole
