#include "cuda/staged/staging.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cuda/driver/device_stream.hpp"
#include "cuda/staged/staged_copies.hpp"

namespace farandole {

namespace {

class staged_memory final : public pinned_memory {
public:
  explicit staged_memory(std::shared_ptr<const pinned_block> block) : block_(std::move(block)) {}
  std::span<std::byte> bytes() const override { return block_->bytes(); }

private:
  std::shared_ptr<const pinned_block> block_;
};

bool contains(const pinned_memory* memory, const staged_piece& piece) {
  if (piece.bytes == 0)
    return true;
  if (memory == nullptr)
    return false;
  const auto all = memory->bytes();
  return piece.host >= all.data() && piece.host + piece.bytes <= all.data() + all.size();
}

class device_staging final : public staging {
public:
  device_staging(std::unique_ptr<device_stream> to_host, std::unique_ptr<device_stream> to_device)
      : to_host_(std::move(to_host)), to_device_(std::move(to_device)) {}

  expected<pinned_memory_ptr> take(std::size_t bytes) override {
    auto& all = to_host_->owner();
    all.unfinished().release_ended();
    auto block = all.pinned()->take(bytes, to_host_->device());
    if (!block)
      return block.error();
    return pinned_memory_ptr(std::make_shared<const staged_memory>(std::move(*block)));
  }

  expected<device_work> copy_out(std::span<const staged_piece> pieces,
                                 std::span<const device_point_ptr> after, pinned_memory_ptr host) override {
    return copy(*to_host_, copy_direction::to_host, pieces, after, std::move(host));
  }

  expected<device_work> copy_in(std::span<const staged_piece> pieces, std::span<const device_point_ptr> after,
                                pinned_memory_ptr host) override {
    return copy(*to_device_, copy_direction::to_device, pieces, after, std::move(host));
  }

  device_progress progress() const override {
    return device_progress::of_both(to_host_->progress(), to_device_->progress());
  }

  error failure() const override { return to_host_->failure(); }

  std::string name() const override { return "GPU " + std::to_string(to_host_->device()); }

private:
  static expected<device_work> copy(device_stream& stream, copy_direction direction,
                                    std::span<const staged_piece> pieces,
                                    std::span<const device_point_ptr> after, pinned_memory_ptr host) {
    assert(std::ranges::all_of(pieces, [&](const auto& piece) { return contains(host.get(), piece); }));
    return stream.launch(after, {std::move(host)},
                         [&](CUstream handle, const auto&) -> device_stream::submitted {
                           return {copy_pieces(stream, handle, pieces, direction)};
                         });
  }

  std::unique_ptr<device_stream> to_host_, to_device_;
};

} // namespace

expected<std::unique_ptr<staging>> staging::open(std::shared_ptr<devices> owner, std::int32_t device) {
  auto to_host = device_stream::open(owner, device);
  if (!to_host)
    return to_host.error();
  auto to_device = device_stream::open(std::move(owner), device);
  if (!to_device)
    return to_device.error();
  return std::unique_ptr<staging>(
      std::make_unique<device_staging>(std::move(*to_host), std::move(*to_device)));
}

} // namespace farandole
