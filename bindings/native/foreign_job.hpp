// Support for joining a job that another launcher started: which job it is and, on rank 0, a rendezvous server.
// Python decides how rank 0 tells the other ranks of it, because Python has torch's store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "actors/event_loop/process_guard.hpp"
#include "actors/rendezvous/served_rendezvous.hpp"

namespace farandole::native {

bool launched_by_mpi();

std::string place_of_process();

std::optional<std::tuple<std::int32_t, std::int32_t, double, std::string>> torch_job();

class rendezvous_server {
public:
  static rendezvous_server start(std::int32_t size, const std::string& known_host);
  rendezvous_server(rendezvous_server&&) noexcept = default;
  ~rendezvous_server();

  void close();
  const std::string& ip() const { return ip_; }
  std::uint16_t port() const { return port_; }
  /// The secret that was made for this job; empty if its processes had been given one.
  const std::string& new_secret() const { return new_secret_; }

private:
  rendezvous_server(std::unique_ptr<served_rendezvous> served, bool has_new_secret);

  std::unique_ptr<process_guard> mark_ = std::make_unique<process_guard>();
  std::unique_ptr<served_rendezvous> served_; ///< null once closed
  std::string ip_;
  std::uint16_t port_;
  std::string new_secret_;
};

} // namespace farandole::native
