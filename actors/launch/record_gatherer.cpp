#include "actors/launch/record_gatherer.hpp"

#include <algorithm>
#include <utility>

#include "messages/wire/records.hpp"

namespace farandole {

namespace {

/// Orders that wait for the present one: those of the job, and of a few programs.
constexpr std::size_t most_orders = 8;
/// To wait for the records of other hosts, if a program asks for them.
constexpr std::chrono::seconds longest_for_programs{20};
/// To wait for the records of other hosts, if a stall is to be explained. Without them, the other ranks are explained.
constexpr std::chrono::milliseconds longest_for_stalls = explanation_time / 2;
/// To remove the files, and to send the explanation of a stall.
constexpr std::chrono::milliseconds time_to_answer{200};

} // namespace

record_gatherer_actor::behavior_type
record_gatherer(record_gatherer_actor::stateful_pointer<record_gatherer_state> self,
                const record_gatherer_spec& spec) {
  return self->state.begin(spec);
}

record_gatherer_actor::behavior_type record_gatherer_state::begin(const record_gatherer_spec& spec) {
  spec_ = spec;
  return {
      [this](const record_hosts& event) {
        if (event.number != number_ || finishing_)
          return;
        gathering_.expect(event.hosts);
        finish_if_complete();
      },
      [this](const host_records& event) { received(event); },
      [this](const record_host_lost& event) {
        gathering_.lose(event.host, event.reason);
        finish_if_complete();
      },
      [this](const gather_records& order) { add(order); },
      [this](const wait_for_gatherings& event) {
        if (orders_.empty())
          event.done();
        else
          waiters_.push_back(event.done);
      },
      [this](const finish_traces& event) { finish(event); },
      [this](const records_wanted& event) { wanted(event); },
      [this](const stall_found& event) { explain(event); },
      [this](const record_part_written& event) {
        if (event.number != number_ || finishing_)
          return;
        gathering_.end_part(event.host);
        self_->send(spec_.agents, record_taken{event.host, number_});
      },
      [this](const records_complete& event) { completed(event); },
      [this](const records_overdue& event) {
        if (event.number != number_ || orders_.empty() || finishing_)
          return;
        gathering_.give_up(
            "they did not arrive within " +
            std::to_string(std::chrono::ceil<std::chrono::seconds>(orders_.front().longest).count()) + " s");
        finish_if_complete();
      },
      [this](const traces_ended& event) {
        if (event.number == traces_number_)
          tell_waiting_program({});
      },
      [this](const own_traces& event) {
        if (event.number != number_ || finishing_)
          return;
        gathering_.note(event.traces->problems);
        spec_.writer->write(std::move(*event.traces));
        awaits_own_ = false;
        finish_if_complete();
      },
      [this](close_atom) { close(); },
  };
}

void record_gatherer_state::add(gather_records order) {
  if (closing_)
    return;
  if (orders_.size() >= most_orders) {
    order.done({{{}, 0, {error_kind::unknown, "too many requests for event records wait already"}}, {}});
    return;
  }
  orders_.push_back(std::move(order));
  if (orders_.size() == 1)
    start_next();
}

void record_gatherer_state::wanted(const records_wanted& event) {
  const auto action = event.request.task.action;
  if (action == record_action::begin_traces)
    return begin_traces(event);
  const auto refuse = [&](const std::string& reason) {
    spec_.answer({event.link, {reason, 0, {}, event.request.caller}});
  };
  if (action == record_action::end_traces && !traces_)
    return refuse("it is not traced: farandole trace start begins a trace");
  const bool copies = action == record_action::copy;
  add({{event.request.folder, {}, copies ? spec_.records->held() : std::vector<held_record>()},
       longest_for_programs,
       [this, event](const gathered_records& gathered) {
         const auto& outcome = gathered.outcome;
         spec_.answer(
             {event.link, {outcome.problem.text, outcome.files, gathered.notices, event.request.caller}});
       },
       event.request.task});
}

/// With a number of steps, the program gets its answer when they have passed.
void record_gatherer_state::begin_traces(const records_wanted& event) {
  const auto answer = [this, event](const std::string& problem, std::vector<std::string> notices) {
    spec_.answer({event.link, {problem, 0, std::move(notices), event.request.caller}});
  };
  const auto begins_traces = [](const gather_records& order) {
    return order.task.action == record_action::begin_traces;
  };
  if (traces_ || waiting_program_ || std::ranges::any_of(orders_, begins_traces))
    return answer("it is traced already: farandole trace stop ends that trace", {});
  const bool waits = event.request.task.limits.steps > 0;
  if (waits)
    waiting_program_ = answer;
  untraced_.clear();
  add({{},
       longest_for_programs,
       [this, waits, answer](const gathered_records& gathered) {
         const auto& problem = gathered.outcome.problem;
         if (!waits)
           return answer(problem.text, gathered.notices);
         untraced_ = gathered.notices;
         if (problem)
           tell_waiting_program(problem.text);
       },
       event.request.task});
}

void record_gatherer_state::finish(const finish_traces& event) {
  if (!traces_)
    return event.done({});
  tell_waiting_program("it ends before so many steps have passed; its launcher writes the trace");
  add({{{}, event.parent, {}}, event.longest, event.done, {record_action::end_traces, {}}});
}

void record_gatherer_state::tell_waiting_program(const std::string& problem) {
  if (const auto program = std::exchange(waiting_program_, nullptr))
    program(problem, std::move(untraced_));
}

void record_gatherer_state::explain(const stall_found& stall) {
  if (!spec_.explain)
    return spec_.explained({stall.number, {}});
  std::vector<std::int32_t> ranks;
  for (const auto& [rank, slot] : stall.missing)
    ranks.push_back(rank);
  record_order order{{}, {}, spec_.records->held()};
  const auto deadline = std::chrono::steady_clock::now() + explanation_time - time_to_answer;
  order.read = [explain = spec_.explain, ranks, deadline](const std::string& folder) {
    return explain(folder, ranks, deadline);
  };
  add({std::move(order),
       longest_for_stalls,
       [this, number = stall.number](const gathered_records& gathered) {
         spec_.explained({number, gathered.outcome.text});
       },
       {}});
}

void record_gatherer_state::start_next() {
  if (orders_.empty()) {
    for (const auto& waiter : std::exchange(waiters_, {}))
      waiter();
    return;
  }
  ++number_;
  gathering_ = {};
  awaits_own_ = false;
  const auto me = caf::actor_cast<record_gatherer_actor>(self_);
  const auto task = orders_.front().task;
  spec_.writer->begin(std::move(orders_.front().order));
  if (task.action == record_action::begin_traces) {
    traces_number_ = number_;
    trace_plan plan;
    plan.bounds = {task.limits.steps, task.limits.bytes};
    plan.sources = [records = spec_.records] { return records->trace_sources(); };
    plan.ended = [me, number = number_] { caf::anon_send(me, traces_ended{number}); };
    traces_ = std::make_unique<trace_writer>(std::move(plan));
  } else if (task.action == record_action::end_traces && traces_) {
    awaits_own_ = true;
    traces_->end([me, number = number_](written_traces traces) {
      caf::anon_send(me, own_traces{number, std::make_shared<written_traces>(std::move(traces))});
    });
    tell_waiting_program("another program has ended the trace");
  }
  if (!spec_.agents) {
    gathering_.expect({});
    return finish_if_complete();
  }
  self_->send(spec_.agents, ask_for_records{number_, task, me});
  self_->delayed_send(self_, orders_.front().longest, records_overdue{number_});
}

void record_gatherer_state::received(const host_records& event) {
  // The agent of a host reports once more when its traces have ended by themselves.
  if (const auto end = decode_records_sent(event.message);
      end && end->request == traces_number_ && traces_ && (orders_.empty() || number_ != traces_number_))
    return tell_waiting_program({});
  if (orders_.empty() || finishing_ || !gathering_.awaits(event.host))
    return;
  if (event.message.kind() == wire::Envelope::Body::RECORDS_SENT) {
    const auto end = decode_records_sent(event.message);
    if (end && end->request != number_)
      return; // of an earlier gathering, which has ended without it
    spec_.writer->end_of(event.host);
    gathering_.complete(event.host, end ? end->problem : end.error().text);
    return finish_if_complete();
  }
  auto part = decode_record_part(event.message);
  if (part && part->request != number_)
    return;
  if (!part || !gathering_.begin_part(event.host)) {
    gathering_.lose(event.host, part ? "its agent sent a part too early" : part.error().text);
    return finish_if_complete();
  }
  spec_.writer->write(
      event.host, std::move(*part),
      [me = caf::actor_cast<record_gatherer_actor>(self_), number = number_, host = event.host] {
        caf::anon_send(me, record_part_written{number, host});
      });
}

void record_gatherer_state::completed(const records_complete& event) {
  if (event.number != number_)
    return;
  if (closing_)
    return self_->quit();
  finishing_ = false;
  const auto order = std::move(orders_.front());
  if (order.task.action == record_action::end_traces)
    traces_.reset();
  order.done({event.outcome, gathering_.notices()});
  orders_.pop_front();
  start_next();
}

void record_gatherer_state::close() {
  closing_ = true;
  tell_waiting_program("it has ended");
  if (orders_.empty())
    return self_->quit();
  gathering_.give_up("the launcher ends");
  finish_if_complete();
}

void record_gatherer_state::finish_if_complete() {
  if (orders_.empty() || finishing_ || awaits_own_ || !gathering_.is_complete())
    return;
  finishing_ = true;
  spec_.writer->finish(
      [me = caf::actor_cast<record_gatherer_actor>(self_), number = number_](const record_outcome& outcome) {
        caf::anon_send(me, records_complete{number, outcome});
      });
}

} // namespace farandole
