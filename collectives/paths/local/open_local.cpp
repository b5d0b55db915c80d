#include "collectives/paths/local/open_local.hpp"

#include <utility>

#include "collectives/paths/local/handoff.hpp"
#include "collectives/paths/local/local.hpp"
#include "collectives/paths/path_setup.hpp"

namespace farandole {

namespace {

/// A local_path, and before that the window that it is made of.
class opened_local_path : public path, public adasum_carrier {
public:
  opened_local_path(const path_setup& setup, std::unique_ptr<window_offer> offer)
      : terms_{setup.options.secret, setup.set.generation, setup.set.set}, policy_(setup.wait_policy()),
        offer_(std::move(offer)), memory_(setup.memory) {
    layout_.generation = setup.set.generation;
    layout_.set = setup.set.set;
    layout_.members = static_cast<std::uint32_t>(setup.levels.neighbours().size());
    layout_.slots = setup.options.slots;
    layout_.chunk_bytes = setup.options.chunk_bytes;
    layout_.board_bytes = setup.options.board_bytes;
    if (layout_.board_bytes > 0) {
      layout_.staging_bytes = setup.options.staging_bytes;
      layout_.arena_bytes = arena::usual_bytes();
    }
  }

  std::string_view name() const override { return "local"; }
  std::string address() override { return offer_ ? offer_->name() : std::string(); }
  error connect(std::span<const std::string> addresses, std::int32_t rank, const limits& until) override;
  outcome run(const work& bundle, const limits& until) override { return connected_->run(bundle, until); }
  outcome carry(const work& bundle, const limits& until, const adasum_exchange& exchange) override {
    return connected_->carry(bundle, until, exchange);
  }

private:
  expected<std::unique_ptr<window>> share(const std::string& offer, std::uint32_t rank, const limits& until);

  const handoff_terms terms_;
  window_layout layout_;
  const waiting policy_;
  std::unique_ptr<window_offer> offer_; ///< null: another member's is taken
  host_memory& memory_;
  std::unique_ptr<local_path> connected_;
};

error opened_local_path::connect(std::span<const std::string> addresses, std::int32_t rank,
                                 const limits& until) {
  const auto place = static_cast<std::uint32_t>(rank);
  auto shared = share(addresses.front(), place, until);
  if (!shared)
    return shared.error();
  memory_.window = std::move(*shared);
  connected_ = std::make_unique<local_path>(memory_.window, place, policy_);
  if (layout_.board_bytes > 0) {
    // They take much address space; a process that has too little goes on without.
    auto arenas = result_arenas::open(*memory_.window, place);
    memory_.board =
        std::make_shared<board>(memory_.window, place, policy_, arenas ? std::move(*arenas) : nullptr);
  }
  memory_.window->drop_descriptor();
  return {};
}

expected<std::unique_ptr<window>> opened_local_path::share(const std::string& offer, std::uint32_t rank,
                                                           const limits& until) {
  if (!offer_) {
    auto taken = take_window(offer, terms_, rank, until);
    if (!taken)
      return taken.error();
    return window::adopt(std::move(*taken), layout_);
  }
  auto shared = window::create(layout_);
  if (!shared)
    return shared.error();
  if (auto problem = offer_->serve(terms_, (*shared)->shared_descriptor(), layout_.members, until))
    return problem;
  offer_.reset();
  return shared;
}

} // namespace

expected<std::unique_ptr<path>> open_local(const path_setup& setup) {
  std::unique_ptr<window_offer> offer;
  if (setup.levels.place == 0) {
    auto opened = window_offer::open();
    if (!opened)
      return opened.error();
    offer = std::move(*opened);
  }
  return opened_path{std::make_unique<opened_local_path>(setup, std::move(offer))};
}

} // namespace farandole
