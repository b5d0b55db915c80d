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
                                 const slot_table& table) {
  const auto slot = "slot " + std::to_string(request.slot);
  if (auto version = version_objection(request.wire_version))
    return version;
  if (!rules.elastic && request.size != rules.size)
    return refused{slot + " expects " + std::to_string(request.size) + " members, but the job has " +
                   std::to_string(rules.size) + ": check HOROVOD_SIZE"};
  const auto* record = table.find(request.slot);
  if (!record)
    return refused{slot + (rules.elastic
                               ? " was not started by this job's launcher"
                               : " is not in 0.." + std::to_string(rules.size - 1) + ": check HOROVOD_RANK")};
  if (const auto first = table.first_ended(); first && !rules.elastic)
    return refused{"the job cannot form again: slot " + std::to_string(*first) + " " +
                       table.at(*first).end_reason,
                   false, *first};
  if (record->retired)
    return taken_out(request.slot);
  if (record->ended)
    return refused{slot + " " + record->end_reason + " and cannot come again"};
  if (record->link || record->is_absent())
    return refused{slot + " is taken by process " + std::to_string(record->announced.process) + " on " +
                   record->announced.host_name};
  return std::nullopt;
}

return_decision check_return(link_id from, const returning& request, const slot_table& table,
                             const generation_record& current) {
  using kind = return_decision::kind;
  const auto refuse = [](std::string reason) {
    return return_decision{kind::turned_away, {std::move(reason)}};
  };
  const auto slot = "slot " + std::to_string(request.slot);
  if (auto version = version_objection(request.wire_version))
    return {kind::turned_away, std::move(*version)};
  const auto* record = table.find(request.slot);
  if (!record)
    return refuse(slot + " is not known to this rendezvous: was it started without its journal?");
  if (const auto held = table.slot_of(from); held && *held != request.slot)
    return refuse("this connection has joined already, as slot " + std::to_string(*held));
  if (record->ended)
    return refuse(slot + " " + record->end_reason + " and cannot come again");
  if (request.generation > current.number())
    return refuse("this rendezvous knows generations up to " + std::to_string(current.number()) +
                  " and not " + std::to_string(request.generation) + ": was it started without its journal?");
  if (request.generation < current.number() || !current.running() || !record->in_generation)
    return {kind::generation_ended, {}};
  if (!record->is_of(request.host, request.process) || record->last_rank != request.rank)
    return refuse(slot + " is rank " + std::to_string(record->last_rank) + " and process " +
                  std::to_string(record->announced.process) + " on " + record->announced.host_name +
                  ", not rank " + std::to_string(request.rank) + " and process " +
                  std::to_string(request.process));
  return {kind::resumes, {}};
}

} // namespace farandole
