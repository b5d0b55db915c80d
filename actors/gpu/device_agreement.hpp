// How the members of a process set find out whether NCCL can move their tensors: each makes a statement about itself,
// over the data paths of the host, and all derive the same answer from the statements. When each of them has tried to connect, the same
// exchange tells all of them whether all are connected. It needs no message of the leader, and the statements are as
// protected as tensors are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/transport/path.hpp"
#include "cuda/nccl/communicator.hpp"

namespace farandole {

/// A member, for the agreement and for texts.
struct device_member {
  std::string name; ///< "rank 1 on alpha"
  std::string host;
};

/// The statement of one member, in the host's byte order: members have equal builds, as for all data on a path.
struct device_statement {
  enum class kind : std::uint32_t {
    unable = 0, ///< it has the `reason`
    absent = 1, ///< it has joined and never had a tensor on a device, so that NCCL cannot serve it yet
    able = 2,
    late =
        3, ///< it has waited for the others for too long, and has the `reason`; theirs tells more, if there is any
  };
  kind stated = kind::unable;
  std::int32_t version = 0; ///< of NCCL
  bool shares_gpu = false;  ///< its NCCL serves several members with one GPU
  gpu_uuid gpu{};
  communicator_id id{}; ///< of the first member, once all have said that they are able
  std::array<char, 256> reason{};

  static device_statement able(std::int32_t version, const gpu_uuid& gpu, bool shares_gpu = false);
  static device_statement absent();
  /// Reasons are cut to 255 bytes.
  static device_statement unable(std::string_view reason, kind stated = kind::unable);
};

class device_agreement {
public:
  device_agreement(const device_statement& own, std::size_t members) : own_(own), all_(members) {}

  /// The work to run first, on every member. Its buffers belong to this object, which must outlive the run.
  work question();

  struct decision {
    enum class kind : std::uint8_t { agreed, later, never };
    kind decided = kind::never;
    std::string reason = {}; ///< later, never: for users
    communicator_id id{};    ///< agreed
  };
  /// After the question has run; the same on all members. `members` by rank.
  decision answer(const std::vector<device_member>& members) const;

private:
  device_statement own_;
  std::vector<device_statement> all_;
};

} // namespace farandole
