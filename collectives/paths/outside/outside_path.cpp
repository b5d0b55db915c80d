#include "collectives/paths/outside/outside_path.hpp"

#include <algorithm>
#include <array>

#include "collectives/math/reduce.hpp"
#include "collectives/paths/path_setup.hpp"
#include "messages/membership.hpp"

namespace farandole {
namespace {

// ---- what is lent ----

std::size_t element_bytes(std::int32_t type) {
  const auto known = dtype_from(static_cast<std::uint32_t>(type));
  return known ? size_of(*known) : 0;
}

void reduce_for_library(std::int32_t type, std::int32_t op, void* output, const void* const* inputs,
                        std::size_t input_count, std::size_t elements, double prescale, double postscale,
                        std::int32_t members) {
  std::vector<const std::byte*> all(input_count);
  std::transform(inputs, inputs + input_count, all.begin(),
                 [](const void* one) { return static_cast<const std::byte*>(one); });
  reduce(static_cast<dtype>(type), static_cast<reduce_op>(op), static_cast<std::byte*>(output), all, elements,
         prescale, postscale, static_cast<std::size_t>(members));
}

void fill_for_library(std::int32_t type, std::int32_t op, void* output, std::size_t elements) {
  fill_neutral(static_cast<dtype>(type), static_cast<reduce_op>(op), static_cast<std::byte*>(output),
               elements);
}

// ---- what is passed ----

/// Text that the library may write.
class reason {
public:
  reason() { text_.front() = '\0'; }
  farandole_path_why* place() { return &place_; }
  const char* text() {
    text_.back() = '\0';
    return text_.data();
  }

private:
  std::array<char, 1024> text_;
  farandole_path_why place_{text_.data(), text_.size()};
};

farandole_path_limits passed(const limits& until) {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  return {reinterpret_cast<const std::uint32_t*>(&until.abort.word()),
          std::chrono::duration_cast<std::chrono::nanoseconds>(until.deadline.time_since_epoch()).count()};
}

const std::size_t* numbers(const std::vector<std::size_t>& all) {
  return all.empty() ? nullptr : all.data();
}

} // namespace

outside_path::outside_path(const farandole_path_table& library, outside_options options)
    : library_(library), options_(std::move(options)) {
  set_.generation = options_.generation;
  set_.set = options_.set;
  set_.rank = options_.rank;
  set_.members = static_cast<std::int32_t>(options_.global_ranks.size());
  set_.global_ranks = options_.global_ranks.data();
  set_.hosts = options_.hosts.data();
  set_.address = options_.address.c_str();
  set_.element_bytes = &element_bytes;
  set_.reduce = &reduce_for_library;
  set_.fill_neutral = &fill_for_library;
}

outside_path::~outside_path() {
  if (is_open_)
    library_.close(opened_);
}

expected<std::unique_ptr<outside_path>> outside_path::open(const outside_options& options) {
  auto library = load_outside_path(options.library);
  if (!library)
    return library.error();
  std::unique_ptr<outside_path> made{new outside_path(**library, options)};
  if (error problem = made->start())
    return problem;
  return made;
}

error outside_path::start() {
  reason why;
  const auto how = library_.open(&set_, &opened_, why.place());
  is_open_ = how == FARANDOLE_PATH_OK;
  return ended(how, why.text(), nullptr);
}

std::string outside_path::address() {
  std::string bytes(path_address_limit_bytes, '\0');
  const std::size_t written = library_.introduce(opened_, bytes.data(), bytes.size());
  if (written > bytes.size()) {
    broken_ = {error_kind::unknown, name_of_library() + "introduces itself with " + std::to_string(written) +
                                        " bytes, where " + std::to_string(bytes.size()) + " are allowed"};
    return {};
  }
  bytes.resize(written);
  return bytes;
}

error outside_path::connect(std::span<const std::string> addresses, std::int32_t /*rank: known since open()*/,
                            const limits& until) {
  if (broken_)
    return broken_;
  std::vector<const void*> bytes;
  std::vector<std::size_t> sizes;
  for (const auto& one : addresses) {
    bytes.push_back(one.data());
    sizes.push_back(one.size());
  }
  reason why;
  const auto limited = passed(until);
  const auto how = library_.connect(opened_, bytes.data(), sizes.data(), &limited, why.place());
  broken_ = ended(how, why.text(), &until);
  return broken_;
}

outcome outside_path::run(const work& bundle, const limits& until) {
  if (broken_)
    return {broken_};
  std::vector<farandole_path_part> parts;
  parts.reserve(bundle.parts.size());
  for (const auto& one : bundle.parts)
    parts.push_back({one.input, one.output, one.input_bytes});
  farandole_path_work what{};
  what.sequence = bundle.sequence;
  what.operation = static_cast<std::int32_t>(bundle.operation);
  what.dtype = static_cast<std::int32_t>(bundle.dtype);
  what.reduce_op = static_cast<std::int32_t>(bundle.reduce_op);
  what.root = bundle.root;
  what.prescale = bundle.prescale;
  what.postscale = bundle.postscale;
  what.part_count = parts.size();
  what.parts = parts.data();
  what.gathered = numbers(bundle.gathered);
  what.sent = numbers(bundle.sent);
  what.received = numbers(bundle.received);
  reason why;
  const auto limited = passed(until);
  const auto how = library_.run(opened_, &what, &limited, why.place());
  const auto problem = ended(how, why.text(), &until);
  if (problem && problem.kind != error_kind::unimplemented)
    broken_ = problem;
  return {problem};
}

std::string outside_path::name_of_library() const {
  return "the path " + std::string(library_.name) + " (" + options_.library + ") ";
}

error outside_path::ended(farandole_path_status how, const char* why, const limits* until) const {
  const std::string what = name_of_library();
  const std::string text = *why != '\0' ? ": " + std::string(why) : std::string();
  switch (how) {
  case FARANDOLE_PATH_OK:
    return {};
  case FARANDOLE_PATH_LATE:
    return {error_kind::timed_out,
            what + "waited in vain" + text +
                (until ? ": " + until->deadline_setting + " has passed" : std::string())};
  case FARANDOLE_PATH_REFUSED:
    return {error_kind::unimplemented, what + "refuses" + text};
  case FARANDOLE_PATH_LOST:
  case FARANDOLE_PATH_BROKEN:
    break;
  }
  return {error_kind::disconnected, what + "failed" + text};
}

expected<std::unique_ptr<path>> open_outside(const path_setup& setup) {
  outside_options options;
  options.library = setup.options.outside_library;
  options.generation = setup.set.generation;
  options.set = setup.set.set;
  options.rank = setup.set.rank;
  options.global_ranks = setup.global_ranks(setup.all_ranks());
  options.hosts.resize(setup.set.members.size());
  for (std::size_t host = 0; host < setup.levels.hosts.size(); ++host)
    for (auto rank : setup.levels.hosts[host])
      options.hosts[static_cast<std::size_t>(rank)] = static_cast<std::int32_t>(host);
  if (auto ip = setup.ip(); !ip.empty())
    options.address = ip;
  return as_path(outside_path::open(options));
}

} // namespace farandole
