// The rendezvous of a job of fixed size, served in the process of its rank 0: for jobs whose launcher is not
// ours and knows nothing of a rendezvous. How the other ranks learn the address and the secret (over MPI, or
// by a store) is the caller's business.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "messages/settings/settings.hpp"
#include "messages/values/error.hpp"

namespace farandole {

class served_rendezvous {
public:
  /// Listens at `ip`, on a free port, for `size` members that know `secret`; an empty one is replaced by a
  /// new one at random. Job-wide settings are handed out as `values` has them.
  static expected<std::unique_ptr<served_rendezvous>> start(const settings& values, std::int32_t size,
                                                            const std::string& ip, const std::string& secret);
  /// Closes the links of members that are still connected.
  ~served_rendezvous();
  served_rendezvous(const served_rendezvous&) = delete;
  served_rendezvous& operator=(const served_rendezvous&) = delete;

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
