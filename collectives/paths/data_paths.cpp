#include "collectives/paths/data_paths.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "collectives/paths/ccl/ccl_library.hpp"
#include "collectives/paths/gloo/gloo_path.hpp"
#include "collectives/paths/hierarchical/hierarchical.hpp"
#include "collectives/paths/local/handoff.hpp"
#include "collectives/paths/local/local.hpp"
#include "collectives/paths/mpi/mpi_path.hpp"
#include "collectives/paths/outside/outside_path.hpp"
#include "collectives/paths/solo.hpp"
#include "collectives/paths/tcp/tcp_path.hpp"
#include "collectives/paths/ucx/ucx_path.hpp"

namespace farandole {

std::vector<std::int32_t> set_view::neighbours() const {
  std::vector<std::int32_t> here;
  auto& host = members[static_cast<std::size_t>(rank)].host;
  for (std::size_t other = 0; other < members.size(); ++other)
    if (members[other].host == host)
      here.push_back(static_cast<std::int32_t>(other));
  return here;
}

hierarchy set_view::hierarchy() const {
  std::vector<std::string> identities;
  for (auto& one : members)
    identities.push_back(one.host);
  return farandole::hierarchy::of(identities, rank);
}

namespace {

// Members of the job on this host: who is not in the set wants the cores as well.
std::uint32_t processes_here(const set_view& set) {
  auto& own = set.members[static_cast<std::size_t>(set.rank)];
  return std::max(static_cast<std::uint32_t>(set.neighbours().size()),
                  static_cast<std::uint32_t>(std::max(own.local_size, 1)));
}

// Where this member's links are: on the interface that the settings name, if they name one. Empty on one
// host.
std::string own_ip(const set_view& set) {
  auto& own = set.members[static_cast<std::size_t>(set.rank)].address;
  return set.one_host() ? std::string() : own.substr(0, own.rfind(':'));
}

set_facts facts_of(const set_view& set) {
  const auto hosts = set.hierarchy().hosts;
  const auto as_many = [&](const auto& host) { return host.size() == hosts.front().size(); };
  return {set.members.size(), hosts.size(), std::all_of(hosts.begin(), hosts.end(), as_many), set.set == 0};
}

// Ranks within the set.
std::vector<std::int32_t> all_ranks(const set_view& set) {
  std::vector<std::int32_t> all(set.members.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

template <class Path>
expected<std::unique_ptr<path>> as_path(expected<std::unique_ptr<Path>> one) {
  if (!one)
    return one.error();
  return std::unique_ptr<path>(std::move(*one));
}

// What a forced path's library moves, for this set.
error look_into_library(const set_facts& set, path_options& options) {
  const auto& row =
      row_of(options.wishes.forced == row_of(path_kind::ccl).name ? path_kind::ccl : path_kind::outside);
  if (row.kind == path_kind::ccl) {
    auto module = find_ccl_module();
    if (!module)
      return module.error();
    options.outside_library = std::move(*module);
  }
  auto library = load_outside_path(options.outside_library);
  if (!library)
    return library.error();
  if (row.serves(set))
    options.wishes.outside = operations_of(**library);
  return {};
}

} // namespace

data_paths::data_paths(const set_view& set, const path_options& how, const path_routes& routes)
    : set_(set), how_(how), routes_(routes), levels_(set.hierarchy()) {}
data_paths::~data_paths() = default;

bool data_paths::shares_memory() const {
  return takes(path_kind::local) || (takes(path_kind::hierarchical) && levels_.neighbours().size() > 1);
}

window_layout data_paths::layout() const {
  window_layout wanted;
  wanted.generation = set_.generation;
  wanted.set = set_.set;
  wanted.members = static_cast<std::uint32_t>(levels_.neighbours().size());
  wanted.slots = how_.slots;
  wanted.chunk_bytes = how_.chunk_bytes;
  wanted.board_bytes = how_.board_bytes;
  return wanted;
}

expected<std::unique_ptr<data_paths>> data_paths::open(const set_view& set, const path_options& how) {
  path_options options = how;
  const auto facts = facts_of(set);
  if (from_library(how.wishes.forced))
    if (auto problem = look_into_library(facts, options))
      return problem;
  auto routes = routes_for(facts, options.wishes);
  if (!routes)
    return routes.error();
  std::unique_ptr<data_paths> opened{new data_paths(set, options, *routes)};
  if (auto problem = opened->open_all())
    return problem;
  return opened;
}

const data_paths::opener data_paths::openers[] = {
    {path_kind::tcp, &data_paths::open_tcp},     {path_kind::ucx, &data_paths::open_ucx},
    {path_kind::gloo, &data_paths::open_gloo},   {path_kind::mpi, &data_paths::open_mpi},
    {path_kind::ccl, &data_paths::open_outside}, {path_kind::outside, &data_paths::open_outside},
};

error data_paths::open_all() {
  if (takes(path_kind::solo))
    opened_as(path_kind::solo) = std::make_unique<solo_path>();
  if (takes(path_kind::hierarchical) && !shares_memory())
    inner_ = std::make_unique<solo_path>();
  if (shares_memory() && levels_.place == 0) {
    auto offer = window_offer::open();
    if (!offer)
      return offer.error();
    offer_ = std::move(*offer);
  }
  for (const auto& one : openers)
    if (takes(one.kind)) {
      auto path = (this->*one.open)();
      if (!path)
        return path.error();
      opened_as(one.kind) = std::move(*path);
    }
  if (takes(path_kind::hierarchical) && levels_.in_column()) {
    auto column = open_tcp_between(levels_.column(), static_cast<std::uint32_t>(levels_.place) + 1);
    if (!column)
      return column.error();
    column_ = std::move(*column);
  }
  return {};
}

/// What the paths between hosts are told alike.
template <class Options>
Options data_paths::between(std::span<const std::int32_t> ranks) const {
  Options options;
  options.generation = set_.generation;
  options.set = set_.set;
  for (auto rank : ranks)
    options.global_ranks.push_back(set_.members[static_cast<std::size_t>(rank)].rank);
  options.adasum_message_bytes = how_.adasum_message_bytes;
  options.spins = waiting::decide(processes_here(set_)).spins();
  return options;
}

expected<std::unique_ptr<exchange_path>> data_paths::open_tcp_between(std::span<const std::int32_t> ranks,
                                                                      std::uint32_t column) const {
  auto options = between<tcp_options>(ranks);
  options.secret = how_.secret;
  options.column = column;
  options.listens = ranks.back() != set_.rank;
  options.meeting_news = how_.meeting_news;
  if (auto ip = own_ip(set_); !ip.empty())
    options.ip = ip;
  return open_tcp_path(options);
}

data_paths::opened data_paths::open_tcp() const {
  return as_path(open_tcp_between(all_ranks(set_), 0));
}

data_paths::opened data_paths::open_ucx() const {
  auto options = between<ucx_options>(all_ranks(set_));
  options.trusted_network = how_.trusted_network;
  options.ip = own_ip(set_);
  return as_path(open_ucx_path(options));
}

data_paths::opened data_paths::open_gloo() const {
  gloo_options options;
  options.generation = set_.generation;
  options.set = set_.set;
  options.rank = set_.rank;
  options.global_ranks.clear();
  for (auto& one : set_.members)
    options.global_ranks.push_back(one.rank);
  if (auto ip = own_ip(set_); !ip.empty())
    options.ip = ip;
  options.adasum_message_bytes = how_.adasum_message_bytes;
  return as_path(gloo_path::open(options));
}

/// A member's slot is its rank in the job's communicator.
data_paths::opened data_paths::open_mpi() const {
  if (!how_.mpi)
    return error{
        error_kind::unimplemented,
        "FARANDOLE_CPU_PATH=mpi (HOROVOD_CPU_OPERATIONS=mpi) was set for the job, but this process was "
        "started without MPI; set it for every process, and start them with mpirun"};
  std::vector<std::int32_t> places;
  for (auto& one : set_.members)
    places.push_back(one.slot);
  return opened{
      std::make_unique<mpi_path>(mpi_set{how_.mpi->engine, how_.mpi->group, set_.set, std::move(places),
                                         set_.rank, waiting::decide(processes_here(set_))},
                                 how_.adasum_message_bytes)};
}

data_paths::opened data_paths::open_outside() const {
  outside_options options;
  options.library = how_.outside_library;
  options.generation = set_.generation;
  options.set = set_.set;
  options.rank = set_.rank;
  for (auto& one : set_.members)
    options.global_ranks.push_back(one.rank);
  options.hosts.resize(set_.members.size());
  for (std::size_t host = 0; host < levels_.hosts.size(); ++host)
    for (auto rank : levels_.hosts[host])
      options.hosts[static_cast<std::size_t>(rank)] = static_cast<std::int32_t>(host);
  if (auto ip = own_ip(set_); !ip.empty())
    options.address = ip;
  return as_path(outside_path::open(options));
}

std::string data_paths::remark() const {
  if (!takes(path_kind::ccl) && !takes(path_kind::outside))
    return {};
  const auto text = what_falls_back(**load_outside_path(how_.outside_library), how_.outside_library);
  return takes(path_kind::ccl) ? text + ", and all of other process sets" : text;
}

introduction data_paths::introduce() const {
  introduction mine;
  mine.rank = set_.members[static_cast<std::size_t>(set_.rank)].rank;
  const auto tell = [&mine](path_kind kind, std::string address) {
    if (!address.empty())
      mine.paths.push_back({std::string(row_of(kind).name), std::move(address)});
  };
  if (offer_)
    tell(path_kind::local, offer_->name());
  for (const auto& one : openers)
    if (const auto& path = opened_as(one.kind))
      tell(one.kind, path->address());
  if (column_)
    tell(path_kind::hierarchical, column_->address());
  return mine;
}

// In the same order on every member.
error data_paths::connect(std::span<const introduction> all, const limits& until) {
  assert(all.size() == set_.members.size());
  for (const auto& one : openers)
    if (const auto& path = opened_as(one.kind))
      if (auto problem = connect_one(one.kind, *path, all, all_ranks(set_), set_.rank, until))
        return problem;
  if (shares_memory())
    if (auto problem = share_window(all, until))
      return problem;
  return takes(path_kind::hierarchical) ? connect_levels(all, until) : error{};
}

error data_paths::connect_one(path_kind kind, path& what, std::span<const introduction> all,
                              std::span<const std::int32_t> ranks, std::int32_t place, const limits& until) {
  std::vector<std::string> addresses;
  for (auto rank : ranks)
    addresses.push_back(all[static_cast<std::size_t>(rank)].address_of(row_of(kind).name));
  auto problem = what.connect(addresses, place, until);
  if (remark_on_connecting_.empty())
    remark_on_connecting_ = what.remark();
  return problem;
}

error data_paths::connect_levels(std::span<const introduction> all, const limits& until) {
  if (column_)
    if (auto problem = connect_one(path_kind::hierarchical, *column_, all, levels_.column(),
                                   static_cast<std::int32_t>(levels_.host), until))
      return problem;
  auto levels = std::make_unique<hierarchical_path>(levels_, std::move(inner_), std::move(column_));
  levels_take_adasum_ = levels->takes_adasum();
  opened_as(path_kind::hierarchical) = std::move(levels);
  return {};
}

// The first member of the host makes the window and hands it out; the others take it.
error data_paths::share_window(std::span<const introduction> all, const limits& until) {
  handoff_terms terms{how_.secret, set_.generation, set_.set};
  auto members = static_cast<std::uint32_t>(levels_.neighbours().size());
  auto rank = static_cast<std::uint32_t>(levels_.place);
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
    auto first = static_cast<std::size_t>(levels_.neighbours().front());
    auto taken = take_window(all[first].address_of(row_of(path_kind::local).name), terms, rank, until);
    if (!taken)
      return taken.error();
    shared = window::adopt(std::move(*taken), layout());
    if (!shared)
      return shared.error();
  }
  window_ = std::move(*shared);
  auto policy = waiting::decide(processes_here(set_));
  auto between_neighbours = std::make_unique<local_path>(window_, rank, policy, how_.single_copy_bytes);
  auto circle = between_neighbours->meet(until);
  if (!circle)
    return circle.error();
  (takes(path_kind::hierarchical) ? inner_ : opened_as(path_kind::local)) = std::move(between_neighbours);
  if (how_.board_bytes > 0)
    board_ = std::make_shared<farandole::board>(window_, rank, policy, std::move(*circle));
  return {};
}

std::shared_ptr<heartbeat_words> data_paths::heartbeats() const {
  if (!window_)
    return nullptr;
  return std::make_shared<heartbeat_words>(window_, static_cast<std::uint32_t>(levels_.place),
                                           levels_.neighbours());
}

path& data_paths::choose(const work& bundle) {
  const auto kind = routes_[static_cast<std::size_t>(bundle.operation)];
  const bool beyond_levels = kind == path_kind::hierarchical && bundle.operation == operation::allreduce &&
                             bundle.reduce_op == reduce_op::adasum && !levels_take_adasum_;
  // What levels do not move goes straight, as all operations of such a set that have no levels.
  return *opened_as(beyond_levels ? path_kind::tcp : kind);
}

} // namespace farandole
