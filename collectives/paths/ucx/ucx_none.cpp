// Stands in for the ucx path where the build found no UCX.
#include "collectives/paths/ucx/ucx_path.hpp"

namespace farandole {

class ucx_path::state {};

ucx_path::ucx_path(std::unique_ptr<state> opened) : state_(std::move(opened)) {}
ucx_path::~ucx_path() = default;

namespace {
error missing() {
  return {error_kind::unimplemented, "the ucx path is not in this build: UCX was not found"};
}
} // namespace

expected<std::unique_ptr<ucx_path>> ucx_path::open(const ucx_options&) {
  return missing();
}
std::string ucx_path::address() const {
  return {};
}
error ucx_path::connect(std::span<const std::string>, std::int32_t, const limits&) {
  return missing();
}
outcome ucx_path::run(const work&, const limits&) {
  return {missing()};
}
outcome ucx_path::run(const work&, const limits&, const piece_interludes&) {
  return {missing()};
}

} // namespace farandole
