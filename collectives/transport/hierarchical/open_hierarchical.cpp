#include "collectives/transport/hierarchical/open_hierarchical.hpp"

#include <string>
#include <utility>
#include <vector>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/hierarchical/hierarchical.hpp"
#include "collectives/transport/path_setup.hpp"
#include "collectives/transport/shm/open_shm_path.hpp"
#include "collectives/transport/solo.hpp"
#include "collectives/transport/tcp/tcp_path.hpp"

namespace farandole {

namespace {

/// Separates the two parts of a path address: that of the path between neighbours, which never contains this
/// character, and that of the cross-host group.
constexpr char separator = '\n';

/// Holds the two paths until they are connected, and then the hierarchical_path over both.
class opened_hierarchical_path : public path {
public:
  /// `cross_host_group` is null exactly if the member is in none.
  opened_hierarchical_path(const hierarchy& levels, std::unique_ptr<path> neighbours,
                           std::unique_ptr<p2p_path> cross_host_group)
      : levels_(levels), neighbours_(std::move(neighbours)), cross_host_group_(std::move(cross_host_group)) {}

  std::string_view name() const override { return "hierarchical"; }
  std::string address() override {
    return neighbours_->address() + separator +
           (cross_host_group_ ? cross_host_group_->address() : std::string());
  }
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;
  std::string remark() const override { return remark_; }
  bool moves(const work& bundle) const override {
    if (bundle.operation != operation::allreduce)
      return true;
    return bundle.reduce_op == reduce_op::adasum ? connected_->takes_adasum()
                                                 : !needs_all_inputs(bundle.dtype, bundle.reduce_op);
  }
  outcome run(const work& bundle, const deadline_and_abort& deadline) override {
    return connected_->run(bundle, deadline);
  }

private:
  const hierarchy levels_;
  std::unique_ptr<path> neighbours_;           ///< moved into connected_ by connect()
  std::unique_ptr<p2p_path> cross_host_group_; ///< moved likewise
  std::string remark_;
  std::unique_ptr<hierarchical_path> connected_;
};

error opened_hierarchical_path::connect(std::span<const std::string> addresses, std::int32_t /*rank*/,
                                        const deadline_and_abort& deadline) {
  std::vector<std::string> near, far;
  for (auto rank : levels_.neighbours()) {
    const auto& both = addresses[static_cast<std::size_t>(rank)];
    near.push_back(both.substr(0, both.find(separator)));
  }
  if (auto problem = neighbours_->connect(near, static_cast<std::int32_t>(levels_.position), deadline))
    return problem;
  if (cross_host_group_) {
    for (auto rank : levels_.cross_host_group()) {
      const auto& both = addresses[static_cast<std::size_t>(rank)];
      const auto end = both.find(separator);
      far.push_back(end == std::string::npos ? std::string() : both.substr(end + 1));
    }
    auto problem = cross_host_group_->connect(far, static_cast<std::int32_t>(levels_.host), deadline);
    remark_ = cross_host_group_->remark();
    if (problem)
      return problem;
  }
  connected_ =
      std::make_unique<hierarchical_path>(levels_, std::move(neighbours_), std::move(cross_host_group_));
  return {};
}

} // namespace

bool wants_levels(const path_wishes& wishes, const set_facts& set, operation asked) {
  if (asked == operation::allgather)
    return wishes.hierarchical_allgather;
  return asked == operation::allreduce &&
         (wishes.hierarchical_allreduce || (wishes.torus_allreduce && set.homogeneous));
}

expected<std::unique_ptr<path>> open_hierarchical(const path_setup& setup) {
  const auto& levels = setup.levels;
  auto neighbours = levels.neighbours().size() > 1 ? open_shm_path(setup) : open_solo(setup);
  if (!neighbours)
    return neighbours.error();
  std::unique_ptr<p2p_path> cross_host_group;
  if (levels.in_cross_host_group()) {
    auto opened =
        open_tcp_between(setup, levels.cross_host_group(), static_cast<std::uint32_t>(levels.position) + 1);
    if (!opened)
      return opened.error();
    cross_host_group = std::move(*opened);
  }
  return opened_path{std::make_unique<opened_hierarchical_path>(levels, std::move(*neighbours),
                                                                std::move(cross_host_group))};
}

} // namespace farandole
