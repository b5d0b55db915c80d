// The module: a plugin path (farandole/path_plugin.h) over oneCCL's collectives. Together with ccl_end and
// ccl_start it is the only code that calls oneCCL. oneCCL reduces, in an order of its own; this file
// applies scales and averages.
#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/math/reduce.hpp"
#include "collectives/transport/ccl/ccl_end.hpp"
#include "messages/values/signature.hpp"

namespace farandole {
namespace {

constexpr std::size_t alignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

ccl::datatype type_of(dtype type) {
  switch (type) {
  case dtype::uint8:
  case dtype::boolean:
    return ccl::datatype::uint8;
  case dtype::int8:
    return ccl::datatype::int8;
  case dtype::uint16:
    return ccl::datatype::uint16;
  case dtype::int16:
    return ccl::datatype::int16;
  case dtype::int32:
    return ccl::datatype::int32;
  case dtype::int64:
    return ccl::datatype::int64;
  case dtype::float16:
    return ccl::datatype::float16;
  case dtype::bfloat16:
    return ccl::datatype::bfloat16;
  case dtype::float32:
    return ccl::datatype::float32;
  case dtype::float64:
    break;
  }
  return ccl::datatype::float64;
}

ccl::reduction reduction_of(reduce_op op) {
  switch (op) {
  case reduce_op::min:
    return ccl::reduction::min;
  case reduce_op::max:
    return ccl::reduction::max;
  case reduce_op::product:
    return ccl::reduction::prod;
  case reduce_op::average:
  case reduce_op::sum:
  case reduce_op::adasum:
    break;
  }
  return ccl::reduction::sum;
}

/// One operation on one ccl_end.
class ccl_work {
public:
  ccl_work(ccl_end& end, const farandole_path_work& work, const farandole_path_limits& deadline)
      : end_(end), set_(end.set()), work_(work), deadline_(deadline),
        parts_(work.parts, work.parts + work.part_count), members_(static_cast<std::size_t>(set_.members)) {}

  ccl_outcome run() {
    switch (static_cast<operation>(work_.operation)) {
    case operation::allreduce:
      return allreduce();
    case operation::allgather:
      return allgather();
    case operation::broadcast:
      return broadcast();
    case operation::barrier:
      return barrier();
    case operation::alltoall:
      return alltoall();
    case operation::join:
    case operation::reducescatter:
      break;
    }
    return {FARANDOLE_PATH_REFUSED, "it does not move operation " + std::to_string(work_.operation)};
  }

private:
  ccl_outcome allreduce() {
    if (static_cast<reduce_op>(work_.reduce_op) == reduce_op::adasum)
      return {
          FARANDOLE_PATH_REFUSED,
          "oneCCL has no Adasum; unset FARANDOLE_CPU_PATH and HOROVOD_CPU_OPERATIONS to let Farandole's own "
          "paths do it"};
    const std::size_t count = total() / set_.element_bytes(work_.dtype);
    if (count == 0)
      return {};
    if (needs_all_inputs(static_cast<dtype>(work_.dtype), static_cast<reduce_op>(work_.reduce_op)))
      return reduce_here(count);
    std::byte* memory = end_.staging(total());
    pack(memory);
    if (work_.prescale != 1.0)
      scale(memory, count, static_cast<std::int32_t>(reduce_op::sum), work_.prescale, 1.0);
    auto outcome = end_.run(
        [&](const ccl::communicator& members) {
          return ccl::allreduce(memory, memory, count, type_of(static_cast<dtype>(work_.dtype)),
                                reduction_of(static_cast<reduce_op>(work_.reduce_op)), members);
        },
        deadline_);
    if (outcome.status != FARANDOLE_PATH_OK)
      return outcome;
    if (work_.postscale != 1.0 || static_cast<reduce_op>(work_.reduce_op) == reduce_op::average)
      scale(memory, count, work_.reduce_op, 1.0, work_.postscale);
    unpack(memory);
    return {};
  }

  /// Gathers the inputs of all members, and reduces them on each.
  ccl_outcome reduce_here(std::size_t count) {
    const std::size_t bytes = total();
    const std::size_t output_offset = aligned(bytes);
    std::byte* memory = end_.staging(output_offset + members_ * bytes);
    std::byte* all = memory + output_offset;
    pack(memory);
    auto outcome = end_.run(
        [&](const ccl::communicator& members) {
          return ccl::allgatherv(memory, bytes, all, std::vector<std::size_t>(members_, bytes),
                                 ccl::datatype::uint8, members);
        },
        deadline_);
    if (outcome.status != FARANDOLE_PATH_OK)
      return outcome;
    std::vector<const void*> inputs;
    for (std::size_t member = 0; member < members_; ++member)
      inputs.push_back(all + member * bytes);
    set_.reduce(work_.dtype, work_.reduce_op, memory, inputs.data(), members_, count, work_.prescale,
                work_.postscale, set_.members);
    unpack(memory);
    return outcome;
  }

  /// Scales in place, as a reduction of one input.
  void scale(void* memory, std::size_t count, std::int32_t op, double before, double after) const {
    set_.reduce(work_.dtype, op, memory, &memory, 1, count, before, after, set_.members);
  }

  ccl_outcome broadcast() {
    if (total() == 0)
      return {};
    std::byte* memory = end_.staging(total());
    if (work_.root == set_.rank)
      pack(memory);
    auto outcome = end_.run(
        [&](const ccl::communicator& members) {
          return ccl::broadcast(memory, total(), ccl::datatype::uint8, work_.root, members);
        },
        deadline_);
    if (outcome.status == FARANDOLE_PATH_OK)
      unpack(memory);
    return outcome;
  }

  /// An allreduce of one integer, which completes on no member before all members have contributed.
  /// oneCCL's own barrier is not used because it may block.
  ccl_outcome barrier() {
    std::byte* memory = end_.staging(sizeof(std::int32_t));
    std::memset(memory, 0, sizeof(std::int32_t));
    return end_.run(
        [&](const ccl::communicator& members) {
          return ccl::allreduce(memory, memory, 1, ccl::datatype::int32, ccl::reduction::sum, members);
        },
        deadline_);
  }

  ccl_outcome allgather() {
    const auto counts = by_member(work_.gathered);
    const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const std::size_t own = counts[static_cast<std::size_t>(set_.rank)];
    if (all == 0)
      return {};
    const std::size_t output_offset =
        aligned(own + 1); // oneCCL takes equal addresses for an in-place operation, even for 0 bytes
    std::byte* memory = end_.staging(output_offset + all);
    std::byte* result = memory + output_offset;
    pack(memory);
    auto outcome = end_.run(
        [&](const ccl::communicator& members) {
          return ccl::allgatherv(memory, own, result, counts, ccl::datatype::uint8, members);
        },
        deadline_);
    if (outcome.status == FARANDOLE_PATH_OK)
      spread(result, work_.gathered);
    return outcome;
  }

  /// Runs even if this member sends and receives nothing: other members may exchange data.
  ccl_outcome alltoall() {
    const auto sent = by_member(work_.sent), received = by_member(work_.received);
    const std::size_t output_offset = aligned(std::accumulate(sent.begin(), sent.end(), std::size_t{0}) + 1);
    const std::size_t in = std::accumulate(received.begin(), received.end(), std::size_t{0});
    std::byte* memory = end_.staging(output_offset + in + alignment);
    std::byte* result = memory + output_offset;
    gather(memory, work_.sent);
    auto outcome = end_.run(
        [&](const ccl::communicator& members) {
          return ccl::alltoallv(memory, sent, result, received, ccl::datatype::uint8, members);
        },
        deadline_);
    if (outcome.status == FARANDOLE_PATH_OK)
      spread(result, work_.received);
    return outcome;
  }

  // ---- layout of parts in staging memory ----

  std::size_t total() const {
    return std::accumulate(parts_.begin(), parts_.end(), std::size_t{0},
                           [](std::size_t sum, const auto& part) { return sum + part.input_bytes; });
  }

  /// Sums the bytes of all parts for each member.
  std::vector<std::size_t> by_member(const std::size_t* bytes) const {
    std::vector<std::size_t> sums(members_);
    for (std::size_t part = 0; part < parts_.size(); ++part)
      for (std::size_t member = 0; member < members_; ++member)
        sums[member] += bytes[part * members_ + member];
    return sums;
  }

  /// Copies the inputs to staging memory, one after the other.
  void pack(std::byte* memory) const {
    for (const auto& part : parts_) {
      if (part.input != nullptr)
        std::memcpy(memory, part.input, part.input_bytes);
      else
        set_.fill_neutral(work_.dtype, work_.reduce_op, memory,
                          part.input_bytes / set_.element_bytes(work_.dtype));
      memory += part.input_bytes;
    }
  }

  void unpack(const std::byte* memory) const {
    for (const auto& part : parts_) {
      if (part.output != nullptr)
        std::memcpy(part.output, memory, part.input_bytes);
      memory += part.input_bytes;
    }
  }

  /// Copies the inputs to staging memory, where the pieces of all parts for a member are contiguous.
  void gather(std::byte* memory, const std::size_t* bytes) const {
    std::vector<std::size_t> at(parts_.size());
    for_pieces(bytes, [&](std::size_t part, std::size_t size) {
      std::memcpy(memory, static_cast<const std::byte*>(parts_[part].input) + at[part], size);
      memory += size;
      at[part] += size;
    });
  }

  /// Copies from that layout to the outputs.
  void spread(const std::byte* memory, const std::size_t* bytes) const {
    std::vector<std::size_t> at(parts_.size());
    for_pieces(bytes, [&](std::size_t part, std::size_t size) {
      std::memcpy(static_cast<std::byte*>(parts_[part].output) + at[part], memory, size);
      memory += size;
      at[part] += size;
    });
  }

  template <class Act>
  void for_pieces(const std::size_t* bytes, const Act& act) const {
    for (std::size_t member = 0; member < members_; ++member)
      for (std::size_t part = 0; part < parts_.size(); ++part)
        if (const std::size_t size = bytes[part * members_ + member]; size > 0)
          act(part, size);
  }

  ccl_end& end_;
  const farandole_path_set& set_;
  const farandole_path_work& work_;
  const farandole_path_limits& deadline_;
  const std::vector<farandole_path_part> parts_;
  const std::size_t members_;
};

// ---- the table ----

farandole_path_status told(const ccl_outcome& outcome, farandole_path_why* reason) {
  if (reason->bytes > 0)
    reason->text[outcome.reason.copy(reason->text, reason->bytes - 1)] = '\0';
  return outcome.status;
}

/// Converts exceptions to a status: no exception may cross the C interface.
template <class Act>
farandole_path_status guarded(farandole_path_why* reason, const Act& act) {
  try {
    return told(act(), reason);
  } catch (const std::exception& problem) {
    return told({FARANDOLE_PATH_BROKEN, problem.what()}, reason);
  }
}

farandole_path_status open_end(const farandole_path_set* set, void** path, farandole_path_why* reason) {
  return guarded(reason, [&]() -> ccl_outcome {
    auto end = std::make_unique<ccl_end>(*set);
    if (!end->unusable().empty())
      return {FARANDOLE_PATH_BROKEN, end->unusable()};
    *path = end.release();
    return {};
  });
}

std::size_t introduce_end(void* path, void* bytes, std::size_t capacity) {
  const std::string text = static_cast<ccl_end*>(path)->address();
  return text.copy(static_cast<char*>(bytes), capacity);
}

farandole_path_status connect_end(void* path, const void* const* addresses, const std::size_t* sizes,
                                  const farandole_path_limits* deadline, farandole_path_why* reason) {
  return guarded(reason, [&] {
    const std::string address(static_cast<const char*>(addresses[0]), sizes[0]);
    return static_cast<ccl_end*>(path)->meet(address, *deadline);
  });
}

farandole_path_status run_end(void* path, const farandole_path_work* work,
                              const farandole_path_limits* deadline, farandole_path_why* reason) {
  return guarded(reason, [&] { return ccl_work(*static_cast<ccl_end*>(path), *work, *deadline).run(); });
}

void close_end(void* path) {
  delete static_cast<ccl_end*>(path);
}

constexpr std::uint32_t bit(operation op) {
  return 1U << static_cast<unsigned>(op);
}

constexpr farandole_path_table table = {FARANDOLE_PATH_VERSION,
                                        "oneCCL",
                                        bit(operation::allreduce) | bit(operation::allgather) |
                                            bit(operation::broadcast) | bit(operation::barrier) |
                                            bit(operation::alltoall),
                                        open_end,
                                        introduce_end,
                                        connect_end,
                                        run_end,
                                        close_end};

} // namespace
} // namespace farandole

extern "C" __attribute__((visibility("default"))) const farandole_path_table* farandole_path() {
  return &farandole::table;
}
