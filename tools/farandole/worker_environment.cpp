#include "tools/farandole/worker_environment.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>

#include "actors/rendezvous/this_host.hpp"
#include "tools/farandole/worker_threads.hpp"

namespace farandole {

namespace {

/// New values by name; a variable without a value is removed from the environment.
using changes = std::map<std::string, std::optional<std::string>, std::less<>>;

bool was_given(const settings& values, setting id) {
  const auto source = values.source(id);
  return source == setting_source::flag || source == setting_source::file;
}

/// Some settings have an effect only together with another one.
bool has_sense(const settings& values, setting id) {
  switch (id) {
  case setting::autotune_log:
    return values.flag(setting::autotune);
  case setting::timeline_mark_cycles:
    return !values.text(setting::timeline).empty();
  default:
    return true;
  }
}

void add_settings(changes& changes, const settings& given) {
  for (const auto& row : setting_table())
    if (was_given(given, row.id) && has_sense(given, row.id))
      changes[std::string(row.environment)] = given.plain(row.id);
  // Autotuning is turned off by the absence of its variable.
  if (was_given(given, setting::autotune) && !given.flag(setting::autotune))
    changes[std::string(row_of(setting::autotune).environment)] = std::nullopt;
}

std::string joined(std::span<const std::string> names) {
  std::string text;
  for (const auto& name : names)
    text += (text.empty() ? "" : ",") + name;
  return text;
}

void add_place(changes& changes, const placement& place, const job_facts& job, bool limit_threads) {
  const auto put = [&](setting id, std::string value) {
    changes[std::string(row_of(id).environment)] = std::move(value);
  };
  assert(!job.interfaces.empty());
  put(setting::host_name, place.host);
  put(setting::rank, std::to_string(place.rank));
  put(setting::size, std::to_string(job.size));
  put(setting::local_rank, std::to_string(place.local_rank));
  put(setting::local_size, std::to_string(place.local_size));
  put(setting::cross_rank, std::to_string(place.cross_rank));
  put(setting::cross_size, std::to_string(place.cross_size));
  put(setting::rendezvous_address, job.rendezvous_address);
  put(setting::rendezvous_port, std::to_string(job.rendezvous_port));
  put(setting::controller, "gloo");
  put(setting::interface, job.interfaces.front());
  if (job.secret_descriptor >= 0)
    put(setting::secret_descriptor, std::to_string(job.secret_descriptor));
  changes["NCCL_SOCKET_IFNAME"] = joined(job.interfaces);
  if (job.limit > 0)
    changes["FARANDOLE_MAX_NP"] = std::to_string(job.limit);
  if (job.reset_limit)
    changes["FARANDOLE_RESET_LIMIT"] = std::to_string(*job.reset_limit);
  if (job.launcher > 0)
    changes["FARANDOLE_LAUNCHER_PROCESS"] = std::to_string(job.launcher);
  if (job.tcp_only)
    changes["NCCL_IB_DISABLE"] = "1";
  changes[member_address_variable] = job.own_address.empty() ? std::nullopt : std::optional(job.own_address);
  changes["PYTHONUNBUFFERED"] = "1";
  // All workers of an elastic job may end up on one host.
  if (limit_threads)
    changes["OMP_NUM_THREADS"] =
        std::to_string(threads_of_each(job.cores, job.limit > 0 ? job.limit : place.local_size));
  // This launcher itself may be part of another job, whose secret and record its workers must not inherit.
  for (const auto id : {setting::secret_file, setting::secret, setting::recorder_descriptor})
    changes[std::string(row_of(id).environment)] = std::nullopt;
}

/// Without the removed and replaced variables, and with the new ones.
std::vector<std::string> changed(std::span<const std::string> inherited, const changes& changes) {
  std::vector<std::string> result;
  for (const auto& entry : inherited)
    if (!changes.contains(std::string_view(entry).substr(0, entry.find('='))))
      result.push_back(entry);
  for (const auto& [name, value] : changes)
    if (value)
      result.push_back(name + "=" + *value);
  return result;
}

/// A variable that describes the launcher's own host or shell.
bool is_local(std::string_view name) {
  return name.starts_with("BASH_FUNC_") || name == "OLDPWD" || name.ends_with("CUDA_VISIBLE_DEVICES") ||
         name == "_HOROVOD_SECRET_KEY" || name == row_of(setting::secret_descriptor).environment ||
         name == row_of(setting::recorder_descriptor).environment;
}

} // namespace

bool sets_threads(std::span<const std::string> environment) {
  return std::any_of(environment.begin(), environment.end(),
                     [](const std::string& entry) { return entry.starts_with("OMP_NUM_THREADS="); });
}

std::vector<std::string> without_secrets(std::span<const std::string> environment) {
  changes changes;
  for (const auto id : {setting::secret_file, setting::secret})
    changes[std::string(row_of(id).environment)] = std::nullopt;
  return changed(environment, changes);
}

std::vector<std::string> forwarded_variables(std::span<const std::string> own) {
  auto result = without_secrets(own);
  std::erase_if(result, [](const std::string& entry) {
    return is_local(std::string_view(entry).substr(0, entry.find('=')));
  });
  return result;
}

std::vector<std::string> worker_environment(std::span<const std::string> inherited, const placement& place,
                                            const job_facts& job, const settings& given) {
  changes changes;
  add_settings(changes, given);
  add_place(changes, place, job, given.flag(setting::omp_threads) && !sets_threads(inherited));
  return changed(inherited, changes);
}

std::vector<std::string> environment_without_place(std::span<const std::string> inherited,
                                                   const settings& given,
                                                   std::span<const std::string> interfaces, bool tcp_only) {
  changes changes;
  add_settings(changes, given);
  // Processes find their job without an MPI library; HOROVOD_CONTROLLER=mpi would load it.
  changes.erase(std::string(row_of(setting::controller).environment));
  for (const auto id :
       {setting::host_name, setting::rank, setting::size, setting::local_rank, setting::local_size,
        setting::cross_rank, setting::cross_size, setting::rendezvous_address, setting::rendezvous_port,
        setting::secret_descriptor, setting::recorder_descriptor})
    changes[std::string(row_of(id).environment)] = std::nullopt;
  changes[member_address_variable] = std::nullopt;
  const auto is_network = [](const std::string& text) { return text.find('/') != std::string::npos; };
  if (!interfaces.empty() && !is_network(interfaces.front()))
    changes[std::string(row_of(setting::interface).environment)] = interfaces.front();
  if (!interfaces.empty() && std::ranges::none_of(interfaces, is_network))
    changes["NCCL_SOCKET_IFNAME"] = joined(interfaces);
  if (tcp_only)
    changes["NCCL_IB_DISABLE"] = "1";
  return changed(inherited, changes);
}

std::vector<std::string> exported_names(std::span<const std::string> environment) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
  std::vector<std::string> names;
  for (const auto& entry : environment)
    if (const auto name = std::string_view(entry).substr(0, entry.find('='));
        !is_local(name) && name.find_first_not_of(letters) == std::string_view::npos)
      names.emplace_back(name);
  return names;
}

} // namespace farandole
