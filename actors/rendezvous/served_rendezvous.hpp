// A rendezvous that runs in the process of rank 0, for a job of fixed size whose launcher is foreign and provides no
// rendezvous. The caller must send its address and the secret to the other ranks (over MPI, or by a store).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class served_rendezvous {
public:
  /// Listens at all of `ips`, on one free port, for `size` members that know `secret`. An empty secret is replaced by a new
  /// random one. Members receive the job-wide settings of `values`.
  static expected<std::unique_ptr<served_rendezvous>> start(const settings& values, std::int32_t size,
                                                            const std::vector<std::string>& ips,
                                                            const std::string& secret);
  /// Closes the links of members that are still connected.
  ~served_rendezvous();
  served_rendezvous(const served_rendezvous&) = delete;
  served_rendezvous& operator=(const served_rendezvous&) = delete;

  /// The first address.
  const std::string& ip() const { return ip_; }
  std::uint16_t port() const { return port_; }
  const std::string& secret() const { return secret_; }

private:
  struct parts;
  served_rendezvous();

  std::unique_ptr<parts> parts_;
  std::string ip_;
  std::uint16_t port_ = 0;
  std::string secret_;
};

} // namespace farandole
