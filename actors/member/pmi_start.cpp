#include "actors/member/pmi_start.hpp"

#include <openssl/sha.h>

#include <array>
#include <mutex>
#include <utility>

#include "actors/rendezvous/this_host.hpp"

namespace farandole {
namespace {

/// A digest of the host's identity, which has any length and any characters. Equal digests: the same host.
std::string host_digest(const settings& values) {
  const auto identity = host_identity(values);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(identity.data()), identity.size(), digest.data());
  std::string text;
  for (const auto byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

/// Whether all processes are on the host of rank 0.
expected<bool> are_on_one_host(process_manager& manager, const std::string& key, const std::string& own,
                               process_manager::time_point deadline) {
  for (std::int32_t rank = 1; rank < manager.size(); ++rank) {
    const auto other = manager.get(rank, key, deadline);
    if (!other)
      return other.error();
    if (*other != own)
      return false;
  }
  return true;
}

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

/// All ranks have been given the secret, or none.
error check_secret_of_rank_0(const job_entry& entry, const std::string& secret) {
  if (entry.new_secret.empty() == !secret.empty())
    return {};
  if (secret.empty())
    return {error_kind::precondition,
            "rank 0 was given a secret, and this process was not: set FARANDOLE_SECRET_FILE "
            "for all processes (mpirun -x, -genv), or for none"};
  return {error_kind::precondition,
          "this process was given a secret, and rank 0 was not: set FARANDOLE_SECRET_FILE "
          "for all processes (mpirun -x, -genv), or for none"};
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
  std::unique_ptr<pmi_start> met(new pmi_start(values, manager));
  const bool may_be_alone = launch.size == 0; // the launcher's variables do not tell the size
  if (!may_be_alone || manager.size() > 1)
    if (auto problem = objection_to_job(launch, manager.rank(), manager.size()))
      return problem;
  values.assign(setting::rank, std::to_string(manager.rank()), setting_source::environment);
  values.assign(setting::size, std::to_string(manager.size()), setting_source::environment);
  if (manager.size() == 1)
    return met;
  const auto entry = met->exchange(values, secret, manager, deadline);
  if (!entry)
    return explained(entry.error(), launch, values);
  if (auto problem = manager.rank() == 0 ? error{} : check_secret_of_rank_0(*entry, secret))
    return problem;
  if (!entry->new_secret.empty())
    secret = entry->new_secret;
  values.assign(setting::rendezvous_address, entry->ip, setting_source::rendezvous);
  values.assign(setting::rendezvous_port, std::to_string(entry->port), setting_source::rendezvous);
  return met;
}

expected<job_entry> pmi_start::exchange(const settings& values, const std::string& secret,
                                        process_manager& manager, time_point deadline) {
  const std::lock_guard lock(manager.guard());
  const auto number = std::to_string(manager.begin_exchange());
  const auto host_key = "host" + number, job_key = "job" + number;
  const auto own_host = host_digest(values);
  if (auto problem = manager.put(host_key, own_host, deadline))
    return problem;
  if (auto problem = manager.fence(deadline))
    return problem;
  if (manager.rank() != 0) {
    if (auto problem = manager.fence(deadline))
      return problem;
    const auto text = manager.get(0, job_key, deadline);
    if (!text)
      return text.error();
    auto entry = parse_job_entry(*text);
    if (entry && entry->ip.empty())
      return error{error_kind::precondition,
                   "rank 0 could not start the rendezvous: see the error of rank 0"};
    return entry;
  }
  const auto one_host = are_on_one_host(manager, host_key, own_host, deadline);
  if (!one_host)
    return one_host.error();
  auto entry = serve(values, secret, *one_host);
  // The other ranks wait for an entry, even if there is nothing to tell.
  if (auto problem = manager.put(job_key, encode_job_entry(entry ? *entry : job_entry{}), deadline))
    return problem;
  if (auto problem = manager.fence(deadline))
    return problem;
  return entry;
}

expected<job_entry> pmi_start::serve(const settings& values, const std::string& secret, bool one_host) {
  const auto ip = one_host ? expected<std::string>("127.0.0.1") : address_for_others(values);
  if (!ip)
    return ip.error();
  auto service = served_rendezvous::start(values, size_, *ip, secret);
  if (!service)
    return service.error();
  rendezvous_ = std::move(*service);
  return job_entry{rendezvous_->ip(), rendezvous_->port(),
                   secret.empty() ? rendezvous_->secret() : std::string()};
}

} // namespace farandole
