#include "collectives/transport/tcp/tcp_path.hpp"

#include "collectives/transport/path_setup.hpp"
#include "collectives/transport/tcp/tcp_messenger.hpp"

namespace farandole {

expected<std::unique_ptr<p2p_path>> open_tcp_path(const tcp_options& options) {
  auto messenger = tcp_messenger::open(options);
  if (!messenger)
    return messenger.error();
  return std::make_unique<p2p_path>("tcp", std::move(*messenger), options);
}

expected<std::unique_ptr<p2p_path>> open_tcp_between(const path_setup& setup,
                                                     std::span<const std::int32_t> ranks,
                                                     std::uint32_t cross_host_group) {
  auto options = setup.between<tcp_options>(ranks);
  options.secret = setup.options.secret;
  options.ports = setup.options.ports;
  options.cross_host_group = cross_host_group;
  options.listens = ranks.back() != setup.set.rank;
  options.meeting_news = setup.options.meeting_news;
  if (auto ip = setup.ip(); !ip.empty())
    options.ip = ip;
  return open_tcp_path(options);
}

expected<std::unique_ptr<path>> open_tcp(const path_setup& setup) {
  return as_path(open_tcp_between(setup, setup.all_ranks(), 0));
}

} // namespace farandole
