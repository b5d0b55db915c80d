#include "actors/launch/record_gatherer.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <future>

#include "actors/event_loop/loop.hpp"
#include "tests/patience.hpp"

using namespace farandole;
using farandole::testing::patience;

namespace {

/// A registry whose agents never answer; with a host, it loses it instead.
record_source_actor::behavior_type mute_agents(record_source_actor::pointer self,
                                               const std::string& lost_host) {
  return {
      [self, lost_host](const ask_for_records& event) {
        if (lost_host.empty())
          return;
        self->send(event.collector, record_hosts{event.number, {lost_host}});
        self->send(event.collector, record_host_lost{lost_host, "its agent was lost"});
      },
      [](const record_taken&) {},
  };
}

records_wanted trace_of_20_steps() {
  records_wanted event;
  event.request.task = {record_action::begin_traces, {20, 1 << 20}};
  return event;
}

/// A gatherer of a job without workers.
struct bench {
  explicit bench(const std::string& lost_host) {
    record_gatherer_spec spec;
    spec.records = std::make_shared<worker_records>();
    spec.writer = &writer;
    spec.agents = system.get().spawn(mute_agents, lost_host);
    spec.answer = [this](const records_answered& event) { answers.at(given++).set_value(event.value); };
    gatherer = system.get().spawn(record_gatherer, spec);
  }
  ~bench() { caf::anon_send(gatherer, close_atom::value); }

  template <typename event>
  void send(event value) {
    caf::anon_send(gatherer, std::move(value));
  }

  records_written answered() {
    auto future = answers.at(seen++).get_future();
    REQUIRE(future.wait_for(patience) == std::future_status::ready);
    return future.get();
  }

  std::array<std::promise<records_written>, 2> answers;
  std::size_t given = 0; // used only on the loop
  std::size_t seen = 0;
  record_writer writer;
  loop_system system;
  record_gatherer_actor gatherer;
};

} // namespace

TEST_CASE("a program that waits for a trace is told when too many requests wait before it", "[launch]") {
  bench job("");
  for (int i = 0; i < 8; ++i)
    job.send(gather_records{{}, std::chrono::minutes(1), [](const gathered_records&) {}});
  for (int i = 0; i < 2; ++i) { // a refused request leaves nothing behind
    job.send(trace_of_20_steps());
    CHECK(job.answered().problem == "too many requests for event records wait already");
  }
}

TEST_CASE("of two requests for a trace that wait for another request, the second is refused", "[launch]") {
  bench job("");
  job.send(gather_records{{}, std::chrono::minutes(1), [](const gathered_records&) {}});
  auto trace = trace_of_20_steps();
  trace.request.task.limits.steps = 0;
  job.send(trace);
  job.send(trace);
  CHECK(job.answered().problem == "it is traced already: farandole trace stop ends that trace");
}

TEST_CASE("a program that waits for a trace learns at its end which hosts were not traced", "[launch]") {
  bench job("b");
  job.send(trace_of_20_steps());
  std::promise<void> begun;
  job.send(wait_for_gatherings{[&begun] { begun.set_value(); }});
  REQUIRE(begun.get_future().wait_for(patience) == std::future_status::ready);
  job.send(traces_ended{1});
  const auto answer = job.answered();
  CHECK(answer.problem.empty());
  CHECK(answer.notices == std::vector<std::string>{"the records of host b are missing: its agent was lost"});
}
