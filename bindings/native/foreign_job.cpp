#include "bindings/native/foreign_job.hpp"

#include <nanobind/nanobind.h>

#include <chrono>
#include <utility>

#include "actors/rendezvous/job_secret.hpp"
#include "actors/rendezvous/this_host.hpp"
#include "bindings/native/raise.hpp"
#include "elastic/foreign_launch.hpp"

namespace nb = nanobind;

namespace farandole::native {
namespace {

settings settings_of_process() {
  auto values = settings::load({process_environment(), {}, {}});
  if (!values)
    raise(values.error());
  return *values;
}

expected<std::unique_ptr<served_rendezvous>> serve(const settings& values, std::int32_t size,
                                                   const std::string& known_host, const std::string& secret) {
  const nb::gil_scoped_release no_gil; // host names may have to be resolved
  auto ip = known_host.empty() ? expected<std::string>("127.0.0.1") : address_for_others(values, known_host);
  if (!ip)
    return ip.error();
  return served_rendezvous::start(values, size, *ip, secret);
}

} // namespace

bool launched_by_mpi() {
  const auto launch = find_foreign_launch(process_environment());
  return launch && launch->starts_mpi && settings_of_process().text(setting::rendezvous_address).empty();
}

std::string place_of_process() {
  return place_in_environment(process_environment());
}

std::optional<std::tuple<std::int32_t, std::int32_t, double, std::string>> torch_job() {
  const auto values = settings_of_process();
  const auto launch = torch_store_launch(process_environment(), values);
  if (!launch)
    return std::nullopt;
  const std::chrono::duration<double> patience = values.duration(setting::start_timeout);
  return std::tuple{launch->rank, launch->size, patience.count(), values.cited(setting::start_timeout)};
}

rendezvous_server rendezvous_server::start(std::int32_t size, const std::string& known_host) {
  const auto values = settings_of_process();
  const auto given_secret = job_secret(values);
  if (!given_secret)
    raise(given_secret.error());
  auto served = serve(values, size, known_host, *given_secret);
  if (!served)
    raise(served.error());
  return rendezvous_server(std::move(*served), given_secret->empty());
}

rendezvous_server::rendezvous_server(std::unique_ptr<served_rendezvous> served, bool has_new_secret)
    : served_(std::move(served)), ip_(served_->ip()), port_(served_->port()),
      new_secret_(has_new_secret ? served_->secret() : std::string()) {}

rendezvous_server::~rendezvous_server() {
  close();
}

void rendezvous_server::close() {
  if (!served_)
    return;
  // A forked child has no event loop to end: it belongs to the parent.
  if (!mark_->is_local())
    return static_cast<void>(served_.release());
  const nb::gil_scoped_release no_gil;
  served_.reset();
}

} // namespace farandole::native
