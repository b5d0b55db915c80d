#include "collectives/transport/plugin/plugin_path.hpp"

#include <algorithm>
#include <array>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/bundle_bytes.hpp"
#include "collectives/transport/path_setup.hpp"
#include "collectives/transport/progress_deadline.hpp"
#include "messages/wire/membership.hpp"

namespace farandole {
namespace {

// ---- functions that the library may call ----

std::size_t element_bytes(std::int32_t type) {
  const auto element_type = dtype_from(static_cast<std::uint32_t>(type));
  return element_type ? size_of(*element_type) : 0;
}

void reduce_for_library(std::int32_t type, std::int32_t op, void* output, const void* const* inputs,
                        std::size_t input_count, std::size_t elements, double prescale, double postscale,
                        std::int32_t members) {
  std::vector<const std::byte*> all(input_count);
  std::transform(inputs, inputs + input_count, all.begin(),
                 [](const void* entry) { return static_cast<const std::byte*>(entry); });
  reduce(static_cast<dtype>(type), static_cast<reduce_op>(op), static_cast<std::byte*>(output), all, elements,
         prescale, postscale, static_cast<std::size_t>(members));
}

void fill_for_library(std::int32_t type, std::int32_t op, void* output, std::size_t elements) {
  fill_neutral(static_cast<dtype>(type), static_cast<reduce_op>(op), static_cast<std::byte*>(output),
               elements);
}

// ---- arguments of the library's functions ----

/// The buffer into which the library writes an error text.
class reason {
public:
  reason() { text_.front() = '\0'; }
  farandole_path_why* buffer() { return &buffer_; }
  const char* text() {
    text_.back() = '\0';
    return text_.data();
  }

private:
  std::array<char, 1024> text_;
  farandole_path_why buffer_{text_.data(), text_.size()};
};

farandole_path_limits passed(const deadline_and_abort& deadline,
                             std::chrono::steady_clock::time_point limit) {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  return {reinterpret_cast<const std::uint32_t*>(&deadline.abort.word()),
          std::chrono::duration_cast<std::chrono::nanoseconds>(limit.time_since_epoch()).count()};
}

std::chrono::steady_clock::time_point deadline_of_call(const deadline_and_abort& deadline,
                                                       const work& bundle) {
  const auto current_time = std::chrono::steady_clock::now();
  return deadline_after(current_time, timeout_of_call(deadline.deadline - current_time, larger_side(bundle)));
}

const std::size_t* numbers(const std::vector<std::size_t>& all) {
  return all.empty() ? nullptr : all.data();
}

} // namespace

plugin_path::plugin_path(const farandole_path_table& library, plugin_options options)
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

plugin_path::~plugin_path() {
  if (is_open_)
    library_.close(opened_);
}

expected<std::unique_ptr<plugin_path>> plugin_path::open(const plugin_options& options) {
  auto library = load_plugin_path(options.library);
  if (!library)
    return library.error();
  std::unique_ptr<plugin_path> made{new plugin_path(**library, options)};
  if (error problem = made->start())
    return problem;
  return made;
}

error plugin_path::start() {
  reason reason;
  const auto status = library_.open(&set_, &opened_, reason.buffer());
  is_open_ = status == FARANDOLE_PATH_OK;
  return ended(status, reason.text(), nullptr);
}

std::string plugin_path::address() {
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

error plugin_path::connect(std::span<const std::string> addresses, std::int32_t /*rank: known since open()*/,
                           const deadline_and_abort& deadline) {
  if (broken_)
    return broken_;
  std::vector<const void*> bytes;
  std::vector<std::size_t> sizes;
  for (const auto& address : addresses) {
    bytes.push_back(address.data());
    sizes.push_back(address.size());
  }
  reason reason;
  const auto limited = passed(deadline, deadline.deadline);
  const auto status = library_.connect(opened_, bytes.data(), sizes.data(), &limited, reason.buffer());
  broken_ = ended(status, reason.text(), &deadline);
  return broken_;
}

outcome plugin_path::run(const work& bundle, const deadline_and_abort& deadline) {
  if (broken_)
    return {broken_};
  std::vector<farandole_path_part> parts;
  parts.reserve(bundle.parts.size());
  for (const auto& part : bundle.parts)
    parts.push_back({part.input, part.output, part.input_bytes});
  farandole_path_work farandole_path_work{};
  farandole_path_work.sequence = bundle.sequence;
  farandole_path_work.operation = static_cast<std::int32_t>(bundle.operation);
  farandole_path_work.dtype = static_cast<std::int32_t>(bundle.dtype);
  farandole_path_work.reduce_op = static_cast<std::int32_t>(bundle.reduce_op);
  farandole_path_work.root = bundle.root;
  farandole_path_work.prescale = bundle.prescale;
  farandole_path_work.postscale = bundle.postscale;
  farandole_path_work.part_count = parts.size();
  farandole_path_work.parts = parts.data();
  farandole_path_work.gathered = numbers(bundle.gathered);
  farandole_path_work.sent = numbers(bundle.sent);
  farandole_path_work.received = numbers(bundle.received);
  reason reason;
  const auto limited = passed(deadline, deadline_of_call(deadline, bundle));
  const auto status = library_.run(opened_, &farandole_path_work, &limited, reason.buffer());
  const auto problem = ended(status, reason.text(), &deadline);
  if (problem && problem.kind != error_kind::unimplemented)
    broken_ = problem;
  return {problem};
}

std::string plugin_path::name_of_library() const {
  return "the path " + std::string(library_.name) + " (" + options_.library + ") ";
}

error plugin_path::ended(farandole_path_status status, const char* reason,
                         const deadline_and_abort* deadline) const {
  const std::string message = name_of_library();
  const std::string text = *reason != '\0' ? ": " + std::string(reason) : std::string();
  switch (status) {
  case FARANDOLE_PATH_OK:
    return {};
  case FARANDOLE_PATH_LATE:
    return {error_kind::timed_out,
            message + "waited in vain" + text +
                (deadline ? ": " + deadline->deadline_setting + " has passed" : std::string())};
  case FARANDOLE_PATH_REFUSED:
    return {error_kind::unimplemented, message + "refuses" + text};
  case FARANDOLE_PATH_LOST:
  case FARANDOLE_PATH_BROKEN:
    break;
  }
  return {error_kind::disconnected, message + "failed" + text};
}

expected<std::unique_ptr<path>> open_plugin(const path_setup& setup) {
  plugin_options options;
  options.library = setup.options.plugin_library;
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
  return as_path(plugin_path::open(options));
}

} // namespace farandole
