#include "collectives/paths/tcp/tcp_path.hpp"

#include "collectives/paths/tcp/tcp_messenger.hpp"

namespace farandole {

expected<std::unique_ptr<exchange_path>> open_tcp_path(const tcp_options& options) {
  auto messenger = tcp_messenger::open(options);
  if (!messenger)
    return messenger.error();
  return std::make_unique<exchange_path>("tcp", std::move(*messenger), options);
}

} // namespace farandole
