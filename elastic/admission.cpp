#include "elastic/admission.hpp"

#include <string>
#include <utility>

namespace farandole {

namespace {

std::optional<refused> version_objection(std::uint32_t version) {
  if (version == wire_version)
    return std::nullopt;
  return refused{"wire version " + std::to_string(version) + " does not match this job's " +
                 std::to_string(wire_version) + ": start every process with the same Farandole"};
}

} // namespace

refused taken_out(std::int32_t slot) {
  return {"slot " + std::to_string(slot) + " has been taken out of the job, which goes on without it", true};
}

std::optional<refused> objection(const hello& request, const membership_rules& rules,
                                 const seat_table& seats) {
  const auto slot = "slot " + std::to_string(request.slot);
  if (auto version = version_objection(request.wire_version))
    return version;
  if (!rules.elastic && request.size != rules.size)
    return refused{slot + " expects " + std::to_string(request.size) + " members, but the job has " +
                   std::to_string(rules.size) + ": check HOROVOD_SIZE"};
  const auto* seat = seats.find(request.slot);
  if (!seat)
    return refused{slot + (rules.elastic
                               ? " was not started by this job's launcher"
                               : " is not in 0.." + std::to_string(rules.size - 1) + ": check HOROVOD_RANK")};
  if (const auto first = seats.first_ended(); first && !rules.elastic)
    return refused{"the job cannot form again: slot " + std::to_string(*first) + " " +
                       seats.at(*first).end_reason,
                   false, *first};
  if (seat->retired)
    return taken_out(request.slot);
  if (seat->ended)
    return refused{slot + " " + seat->end_reason + " and cannot come again"};
  if (seat->link || seat->is_absent())
    return refused{slot + " is taken by process " + std::to_string(seat->announced.process) + " on " +
                   seat->announced.host_name};
  return std::nullopt;
}

return_verdict check_return(route from, const returning& request, const seat_table& seats,
                            const generation_record& current) {
  using kind = return_verdict::kind;
  const auto refuse = [](std::string reason) {
    return return_verdict{kind::turned_away, {std::move(reason)}};
  };
  const auto slot = "slot " + std::to_string(request.slot);
  if (auto version = version_objection(request.wire_version))
    return {kind::turned_away, std::move(*version)};
  const auto* seat = seats.find(request.slot);
  if (!seat)
    return refuse(slot + " is not known to this rendezvous: was it started without its journal?");
  if (const auto held = seats.slot_of(from); held && *held != request.slot)
    return refuse("this connection has joined already, as slot " + std::to_string(*held));
  if (seat->ended)
    return refuse(slot + " " + seat->end_reason + " and cannot come again");
  if (request.generation > current.number())
    return refuse("this rendezvous knows generations up to " + std::to_string(current.number()) +
                  " and not " + std::to_string(request.generation) + ": was it started without its journal?");
  if (request.generation < current.number() || !current.running() || !seat->in_generation)
    return {kind::generation_ended, {}};
  if (!seat->is_of(request.host, request.process) || seat->last_rank != request.rank)
    return refuse(slot + " is rank " + std::to_string(seat->last_rank) + " and process " +
                  std::to_string(seat->announced.process) + " on " + seat->announced.host_name +
                  ", not rank " + std::to_string(request.rank) + " and process " +
                  std::to_string(request.process));
  return {kind::resumes, {}};
}

} // namespace farandole
