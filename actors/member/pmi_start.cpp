#include "actors/member/pmi_start.hpp"

#include <chrono>
#include <mutex>
#include <utility>

namespace farandole {
namespace {

/// The error of the launcher's process manager, with the launcher and the remedy.
error explained(const error& cause, const foreign_launch& launch, const settings& values) {
  if (cause.kind == error_kind::timed_out)
    return {error_kind::timed_out,
            launch.text() + ", but not all processes of that job called init() within the " +
                values.cited(setting::start_timeout) + " (" + cause.text +
                "): call init() in each of them; where processes start slowly, set it to more; "
                "set HOROVOD_SIZE=1 if every process is meant to train alone"};
  return {error_kind::precondition,
          launch.text() + ", but Farandole cannot find its job: " + cause.text + "; " + launch.advice()};
}

} // namespace

bool pmi_start::applies(const settings& values, const foreign_launch& launch) {
  return launch.has_process_manager() && launch.may_have_others() && !is_meant_to_be_alone(values) &&
         values.text(setting::rendezvous_address).empty();
}

expected<std::unique_ptr<pmi_start>> pmi_start::meet(settings& values, std::string& secret,
                                                     const foreign_launch& launch) {
  const auto deadline = std::chrono::steady_clock::now() + values.duration(setting::start_timeout);
  const auto manager = process_manager_of(launch, deadline);
  if (!manager)
    return explained(manager.error(), launch, values);
  return meet(values, secret, launch, **manager, deadline);
}

expected<std::unique_ptr<pmi_start>> pmi_start::meet(settings& values, std::string& secret,
                                                     const foreign_launch& launch, process_manager& manager,
                                                     time_point deadline) {
  std::unique_ptr<pmi_start> met(new pmi_start(values));
  const bool may_be_alone = launch.size == 0; // the launcher's variables do not tell the size
  if (!may_be_alone || manager.size() > 1)
    if (auto problem = objection_to_job(launch, manager.rank(), manager.size()))
      return problem;
  values.assign(setting::rank, std::to_string(manager.rank()), setting_source::environment);
  values.assign(setting::size, std::to_string(manager.size()), setting_source::environment);
  if (manager.size() == 1)
    return met;
  const std::lock_guard lock(manager.guard());
  auto place = hold_meeting(manager, manager.begin_exchange(), values, secret, deadline);
  if (!place)
    return explained(place.error(), launch, values);
  if (place->refusal)
    return place->refusal;
  place->assign_to(values);
  secret = place->secret;
  met->rendezvous_ = std::move(place->rendezvous);
  return met;
}

} // namespace farandole
