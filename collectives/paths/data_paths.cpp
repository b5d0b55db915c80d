#include "collectives/paths/data_paths.hpp"

#include <algorithm>
#include <cassert>

#include "collectives/paths/handoff.hpp"
#include "collectives/paths/local.hpp"
#include "collectives/paths/solo.hpp"
#include "collectives/paths/ucx_path.hpp"

namespace farandole {

std::vector<std::int32_t> set_view::neighbours() const {
  std::vector<std::int32_t> here;
  auto& host = members[static_cast<std::size_t>(rank)].host;
  for (std::size_t other = 0; other < members.size(); ++other)
    if (members[other].host == host)
      here.push_back(static_cast<std::int32_t>(other));
  return here;
}

namespace {

enum class route_kind : std::uint8_t { solo, local, ucx };

struct path_row {
  route_kind kind;
  std::string_view name;
  bool (*serves)(const set_view& set);
  std::string_view needs;
};

// The first row that serves the set is taken; a forced path must be one that does.
constexpr path_row path_rows[] = {
    {route_kind::solo, "solo", [](const set_view& set) { return set.members.size() == 1; },
     "a set of one member"},
    {route_kind::local, "local", [](const set_view& set) { return set.one_host(); },
     "all members on one host"},
    {route_kind::ucx, "ucx", [](const set_view&) { return true; }, "nothing"},
};

expected<route_kind> route_for(const set_view& set, const std::string& forced) {
  for (auto& row : path_rows) {
    auto wanted = forced == "auto" || forced == row.name || row.kind == route_kind::solo;
    if (wanted && row.serves(set))
      return row.kind;
    if (forced == row.name)
      return error{error_kind::unimplemented, "FARANDOLE_CPU_PATH=" + forced + " needs " +
                                                  std::string(row.needs) +
                                                  "; unset it to let Farandole choose"};
  }
  return error{error_kind::unimplemented,
               "FARANDOLE_CPU_PATH=" + forced + " is not in this build; use auto, local or ucx"};
}

// Members of the job on this host: who is not in the set wants the cores as well.
std::uint32_t processes_here(const set_view& set) {
  auto& own = set.members[static_cast<std::size_t>(set.rank)];
  return std::max(static_cast<std::uint32_t>(set.neighbours().size()),
                  static_cast<std::uint32_t>(std::max(own.local_size, 1)));
}

} // namespace

data_paths::data_paths(const set_view& set, const path_options& how) : set_(set), how_(how) {}
data_paths::~data_paths() = default;

window_layout data_paths::layout() const {
  window_layout wanted;
  wanted.generation = set_.generation;
  wanted.set = set_.set;
  wanted.members = static_cast<std::uint32_t>(set_.members.size());
  wanted.slots = how_.slots;
  wanted.chunk_bytes = how_.chunk_bytes;
  wanted.board_bytes = how_.board_bytes;
  return wanted;
}

expected<std::unique_ptr<data_paths>> data_paths::open(const set_view& set, const path_options& how) {
  auto kind = route_for(set, how.forced);
  if (!kind)
    return kind.error();
  std::unique_ptr<data_paths> opened{new data_paths(set, how)};
  if (*kind == route_kind::solo) {
    opened->local_ = std::make_unique<solo_path>();
  } else if (*kind == route_kind::local) {
    if (set.rank == 0) {
      auto offer = window_offer::open();
      if (!offer)
        return offer.error();
      opened->offer_ = std::move(*offer);
    }
  } else {
    ucx_options options;
    options.generation = set.generation;
    options.set = set.set;
    for (auto& one : set.members)
      options.global_ranks.push_back(one.rank);
    options.spins = waiting::decide(processes_here(set)).spins();
    auto path = ucx_path::open(options);
    if (!path)
      return path.error();
    opened->ucx_ = std::move(*path);
  }
  return opened;
}

introduction data_paths::introduce() const {
  introduction mine;
  mine.rank = set_.members[static_cast<std::size_t>(set_.rank)].rank;
  if (offer_)
    mine.window = offer_->name();
  if (ucx_)
    mine.ucx = ucx_->address();
  return mine;
}

error data_paths::connect(std::span<const introduction> all, const limits& until) {
  assert(all.size() == set_.members.size());
  if (ucx_) {
    std::vector<std::string> addresses;
    for (auto& one : all)
      addresses.push_back(one.ucx);
    return ucx_->connect(addresses, set_.rank, until);
  }
  return local_ ? error{} : share_window(all, until);
}

// Rank 0 makes the window and hands it out; the others take it.
error data_paths::share_window(std::span<const introduction> all, const limits& until) {
  handoff_terms terms{how_.secret, set_.generation, set_.set};
  auto members = static_cast<std::uint32_t>(set_.members.size());
  expected<std::unique_ptr<window>> shared = error{error_kind::unknown, "no window"};
  if (offer_) {
    shared = window::create(layout());
    if (!shared)
      return shared.error();
    if (auto problem = offer_->serve(terms, (*shared)->shared_descriptor(), members, until))
      return problem;
    (*shared)->drop_descriptor();
    offer_.reset();
  } else {
    auto taken = take_window(all.front().window, terms, static_cast<std::uint32_t>(set_.rank), until);
    if (!taken)
      return taken.error();
    shared = window::adopt(std::move(*taken), layout());
    if (!shared)
      return shared.error();
  }
  window_ = std::move(*shared);
  auto policy = waiting::decide(processes_here(set_));
  auto rank = static_cast<std::uint32_t>(set_.rank);
  local_ = std::make_unique<local_path>(window_, rank, policy);
  if (how_.board_bytes > 0)
    board_ = std::make_shared<farandole::board>(window_, rank, policy);
  return {};
}

path& data_paths::choose(const work&) {
  assert(local_ || ucx_);
  return local_ ? *local_ : static_cast<path&>(*ucx_);
}

} // namespace farandole
