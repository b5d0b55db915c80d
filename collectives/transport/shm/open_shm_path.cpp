#include "collectives/transport/shm/open_shm_path.hpp"

#include <utility>

#include "collectives/transport/path_setup.hpp"
#include "collectives/transport/shm/fd_passing.hpp"
#include "collectives/transport/shm/shm_path.hpp"

namespace farandole {

namespace {

/// Shares the segment in connect() and then forwards to the shm_path that uses it.
class opened_shm_path : public path, public adasum_carrier {
public:
  opened_shm_path(const path_setup& setup, std::unique_ptr<segment_offer> offer)
      : terms_{setup.options.secret, setup.set.generation, setup.set.set}, policy_(setup.wait_policy()),
        offer_(std::move(offer)), memory_(setup.memory) {
    layout_.generation = setup.set.generation;
    layout_.set = setup.set.set;
    layout_.members = static_cast<std::uint32_t>(setup.levels.neighbours().size());
    layout_.slots = setup.options.slots;
    layout_.chunk_bytes = setup.options.chunk_bytes;
    layout_.fast_path_bytes = setup.options.fast_path_bytes;
    if (layout_.fast_path_bytes > 0) {
      layout_.staging_bytes = setup.options.staging_bytes;
      layout_.heap_bytes = shared_result_heap::usual_bytes();
    }
  }

  std::string_view name() const override { return "local"; }
  std::string address() override { return offer_ ? offer_->name() : std::string(); }
  error connect(std::span<const std::string> addresses, std::int32_t rank,
                const deadline_and_abort& deadline) override;
  outcome run(const work& bundle, const deadline_and_abort& deadline) override {
    return connected_->run(bundle, deadline);
  }
  outcome carry(const work& bundle, const deadline_and_abort& deadline,
                const adasum_exchange& exchange) override {
    return connected_->carry(bundle, deadline, exchange);
  }

private:
  expected<std::unique_ptr<shm_segment>> share(const std::string& offer, std::uint32_t rank,
                                               const deadline_and_abort& deadline);

  const fd_passing_terms terms_;
  segment_layout layout_;
  const futex_wait policy_;
  std::unique_ptr<segment_offer> offer_; ///< null: this member adopts the segment of the first member
  host_memory& memory_;
  std::unique_ptr<shm_path> connected_;
};

error opened_shm_path::connect(std::span<const std::string> addresses, std::int32_t rank,
                               const deadline_and_abort& deadline) {
  const auto position = static_cast<std::uint32_t>(rank);
  auto shared = share(addresses.front(), position, deadline);
  if (!shared)
    return shared.error();
  memory_.segment = std::move(*shared);
  connected_ = std::make_unique<shm_path>(memory_.segment, position, policy_);
  if (layout_.fast_path_bytes > 0) {
    // The result heaps take much address space. A process that has too little runs without them.
    auto heaps = result_heaps::open(*memory_.segment, position);
    memory_.fast_path = std::make_shared<shm_fast_path>(memory_.segment, position, policy_,
                                                        heaps ? std::move(*heaps) : nullptr);
  }
  memory_.segment->drop_descriptor();
  return {};
}

expected<std::unique_ptr<shm_segment>> opened_shm_path::share(const std::string& offer, std::uint32_t rank,
                                                              const deadline_and_abort& deadline) {
  if (!offer_) {
    auto taken = take_segment(offer, terms_, rank, deadline);
    if (!taken)
      return taken.error();
    return shm_segment::adopt(std::move(*taken), layout_);
  }
  auto shared = shm_segment::create(layout_);
  if (!shared)
    return shared.error();
  if (auto problem = offer_->serve(terms_, (*shared)->shared_descriptor(), layout_.members, deadline))
    return problem;
  offer_.reset();
  return shared;
}

} // namespace

expected<std::unique_ptr<path>> open_shm_path(const path_setup& setup) {
  std::unique_ptr<segment_offer> offer;
  if (setup.levels.position == 0) {
    auto opened = segment_offer::open();
    if (!opened)
      return opened.error();
    offer = std::move(*opened);
  }
  return opened_path{std::make_unique<opened_shm_path>(setup, std::move(offer))};
}

} // namespace farandole
