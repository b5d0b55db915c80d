#include "collectives/paths/hierarchical/open_hierarchical.hpp"

#include <string>
#include <utility>
#include <vector>

#include "collectives/paths/hierarchical/hierarchical.hpp"
#include "collectives/paths/local/open_local.hpp"
#include "collectives/paths/path_setup.hpp"
#include "collectives/paths/solo.hpp"
#include "collectives/paths/tcp/tcp_path.hpp"

namespace farandole {

namespace {

/// Between the two parts of an address: that between neighbours, in which it does not occur, and the
/// column's.
constexpr char separator = '\n';

/// A hierarchical_path, and before that its two parts.
class opened_hierarchical_path : public path {
public:
  /// `column` is null exactly where the member is in none.
  opened_hierarchical_path(const hierarchy& levels, std::unique_ptr<path> neighbours,
                           std::unique_ptr<exchange_path> column)
      : levels_(levels), neighbours_(std::move(neighbours)), column_(std::move(column)) {}

  std::string_view name() const override { return "hierarchical"; }
  std::string address() override {
    return neighbours_->address() + separator + (column_ ? column_->address() : std::string());
  }
  error connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until) override;
  std::string remark() const override { return remark_; }
  bool moves(const work& bundle) const override {
    return bundle.operation != operation::allreduce || bundle.reduce_op != reduce_op::adasum ||
           connected_->takes_adasum();
  }
  outcome run(const work& bundle, const limits& until) override { return connected_->run(bundle, until); }

private:
  const hierarchy levels_;
  std::unique_ptr<path> neighbours_;      ///< handed on once connected
  std::unique_ptr<exchange_path> column_; ///< likewise
  std::string remark_;
  std::unique_ptr<hierarchical_path> connected_;
};

error opened_hierarchical_path::connect(std::span<const std::string> addresses, std::int32_t /*rank*/,
                                        const limits& until) {
  std::vector<std::string> near, far;
  for (auto rank : levels_.neighbours()) {
    const auto& both = addresses[static_cast<std::size_t>(rank)];
    near.push_back(both.substr(0, both.find(separator)));
  }
  if (auto problem = neighbours_->connect(near, static_cast<std::int32_t>(levels_.place), until))
    return problem;
  if (column_) {
    for (auto rank : levels_.column()) {
      const auto& both = addresses[static_cast<std::size_t>(rank)];
      const auto end = both.find(separator);
      far.push_back(end == std::string::npos ? std::string() : both.substr(end + 1));
    }
    auto problem = column_->connect(far, static_cast<std::int32_t>(levels_.host), until);
    remark_ = column_->remark();
    if (problem)
      return problem;
  }
  connected_ = std::make_unique<hierarchical_path>(levels_, std::move(neighbours_), std::move(column_));
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
  auto neighbours = levels.neighbours().size() > 1 ? open_local(setup) : open_solo(setup);
  if (!neighbours)
    return neighbours.error();
  std::unique_ptr<exchange_path> column;
  if (levels.in_column()) {
    auto opened = open_tcp_between(setup, levels.column(), static_cast<std::uint32_t>(levels.place) + 1);
    if (!opened)
      return opened.error();
    column = std::move(*opened);
  }
  return opened_path{
      std::make_unique<opened_hierarchical_path>(levels, std::move(*neighbours), std::move(column))};
}

} // namespace farandole
