#include "collectives/transport/hierarchical/hierarchical_transport.hpp"

#include <cassert>
#include <cstring>
#include <numeric>

#include "collectives/math/reduce.hpp"

namespace farandole {

namespace {

/// Limits of share sizes:
///
/// - share_bytes: the largest share of an allreduce, equal to a piece of the ucx path.
/// - least_gathered_share_bytes: a lower bound of the largest share of an allgather.
/// - share_unit: shares are multiples of it.
constexpr std::size_t share_bytes = std::size_t{512} << 10;
constexpr std::size_t least_gathered_share_bytes = std::size_t{64} << 10;
constexpr std::size_t share_unit = 4096;

std::size_t gathered_share(std::size_t hosts) {
  return std::max(least_gathered_share_bytes, (std::size_t{1} << 20) / std::max<std::size_t>(1, hosts - 1));
}

bool is_narrow(dtype type) {
  return type == dtype::float16 || type == dtype::bfloat16;
}

bool is_sum(reduce_op op) {
  return op == reduce_op::sum || op == reduce_op::average;
}

} // namespace

// ---- allreduce -----------------------------------------------------------------------------------

hierarchical_allreduce::hierarchical_allreduce(const work& bundle, const hierarchy& topology,
                                               joined_memory& joined)
    : bundle_(bundle), topology_(topology), joined_(joined), members_(0) {
  for (const auto& host : topology.hosts)
    members_ += host.size();
  bool has_joined = false;
  for (const auto& part : bundle.parts) {
    stream_.append(part.input_bytes);
    has_joined = has_joined || !part.input || !part.output;
  }
  plan_ = share_plan::of(stream_.bytes(), topology.cross_host_groups, share_bytes, share_unit);
  if (!has_joined || plan_.pieces == 0)
    return;
  const std::size_t piece = plan_.share_bytes * plan_.cross_host_groups;
  joined_.inputs.resize(piece);
  fill_neutral(bundle.dtype, bundle.reduce_op, joined_.inputs.data(), piece / size_of(bundle.dtype));
  joined_.shares.resize(plan_.share_bytes * pieces_under_way);
  joined_.outputs.resize(piece);
}

bool hierarchical_allreduce::scales_early() const {
  return is_narrow(bundle_.dtype) && is_sum(bundle_.reduce_op);
}

void hierarchical_allreduce::scale(work& made, std::size_t level_members) const {
  made.reduce_op = bundle_.reduce_op;
  made.postscale = bundle_.postscale;
  if (bundle_.reduce_op == reduce_op::average)
    made.postscale *= static_cast<double>(level_members) / static_cast<double>(members_);
}

work hierarchical_allreduce::blank(operation kind) const {
  work made;
  made.sequence = bundle_.sequence;
  made.operation = kind;
  made.dtype = bundle_.dtype;
  made.reduce_op = is_sum(bundle_.reduce_op) ? reduce_op::sum : bundle_.reduce_op;
  return made;
}

std::byte* hierarchical_allreduce::home(std::size_t piece, std::size_t part, std::size_t offset,
                                        std::size_t in_share) const {
  if (std::byte* output = bundle_.parts[part].output)
    return output + offset;
  return joined_.shares.data() + piece % pieces_under_way * plan_.share_bytes + in_share;
}

template <class Own>
void hierarchical_allreduce::divide(std::size_t piece, std::size_t from, std::size_t bytes,
                                    std::vector<std::size_t>& sizes, const Own& own) const {
  for (std::size_t position = 0; position < topology_.neighbours().size(); ++position) {
    const auto share = plan_.share(piece, position, stream_.bytes());
    const std::size_t begin = std::max(from, share.from);
    const std::size_t end = std::min(from + bytes, share.from + share.bytes);
    sizes.push_back(end > begin ? end - begin : 0);
    if (position == topology_.position && end > begin)
      own(begin, end - begin, begin - share.from);
  }
}

work hierarchical_allreduce::before(std::size_t piece) const {
  work made = blank(operation::reducescatter);
  made.prescale = bundle_.prescale;
  if (scales_early())
    scale(made, topology_.neighbours().size());
  const auto [from, bytes] = plan_.piece(piece, stream_.bytes());
  stream_.for_each(from, bytes, [&, from = from](const tensor_stream::piece& cut) {
    const part& whole = bundle_.parts[cut.part];
    part local;
    local.input = whole.input ? whole.input + cut.offset : joined_.inputs.data();
    local.input_bytes = cut.bytes;
    const std::size_t at = from + cut.at;
    divide(piece, at, cut.bytes, made.sent, [&](std::size_t begin, std::size_t, std::size_t in_share) {
      local.output = home(piece, cut.part, cut.offset + (begin - at), in_share);
    });
    made.parts.push_back(local);
  });
  return made;
}

work hierarchical_allreduce::cross_host_group() const {
  work made = blank(operation::allreduce);
  if (!scales_early())
    scale(made, topology_.hosts.size());
  for (std::size_t piece = 0; piece < plan_.pieces; ++piece) {
    const auto [from, bytes] = plan_.share(piece, topology_.position, stream_.bytes());
    stream_.for_each(from, bytes, [&](const tensor_stream::piece& cut) {
      std::byte* const memory = home(piece, cut.part, cut.offset, cut.at);
      made.parts.push_back({memory, memory, cut.bytes, {}});
    });
  }
  return made;
}

work hierarchical_allreduce::after(std::size_t piece) const {
  work made = blank(operation::allgather);
  const auto [from, bytes] = plan_.piece(piece, stream_.bytes());
  stream_.for_each(from, bytes, [&, from = from](const tensor_stream::piece& cut) {
    const part& whole = bundle_.parts[cut.part];
    part local;
    local.output = whole.output ? whole.output + cut.offset : joined_.outputs.data() + cut.at;
    const std::size_t at = from + cut.at;
    divide(piece, at, cut.bytes, made.gathered,
           [&](std::size_t begin, std::size_t length, std::size_t in_share) {
             local.input = home(piece, cut.part, cut.offset + (begin - at), in_share);
             local.input_bytes = length;
           });
    made.parts.push_back(local);
  });
  return made;
}

// ---- allgather -----------------------------------------------------------------------------------

hierarchical_allgather::hierarchical_allgather(const work& bundle, const hierarchy& topology)
    : bundle_(bundle), topology_(topology), blocks_(topology.hosts.size()) {
  std::size_t members = 0;
  for (const auto& host : topology.hosts)
    members += host.size();
  assert(bundle.gathered.size() == bundle.parts.size() * members);
  std::vector<std::size_t> starts(members);
  const auto self = static_cast<std::size_t>(topology.neighbours()[topology.position]);
  for (std::size_t at = 0; at < bundle.parts.size(); ++at) {
    const auto sizes = std::span(bundle.gathered).subspan(at * members, members);
    std::exclusive_scan(sizes.begin(), sizes.end(), starts.begin(), std::size_t{0});
    const part& part = bundle.parts[at];
    // Copy the input first: if input and output are the same memory, the position of the input belongs to
    // another member's row.
    if (sizes[self] != 0 && part.output + starts[self] != part.input)
      std::memmove(part.output + starts[self], part.input, sizes[self]);
    for (std::size_t host = 0; host < topology.hosts.size(); ++host)
      for (const std::int32_t member : topology.hosts[host]) {
        const auto from = static_cast<std::size_t>(member);
        blocks_[host].append(sizes[from], part.output + starts[from]);
        if (host != topology.host)
          continue;
        rows_.append(sizes[from], part.output + starts[from]);
      }
  }
  std::size_t longest = 0;
  for (const auto& block : blocks_)
    longest = std::max(longest, block.bytes());
  plan_ =
      share_plan::of(longest, topology.cross_host_groups, gathered_share(topology.hosts.size()), share_unit);
}

work hierarchical_allgather::blank() const {
  work made;
  made.sequence = bundle_.sequence;
  made.operation = operation::allgather;
  made.dtype = bundle_.dtype;
  return made;
}

void hierarchical_allgather::append(work& to, const std::byte* memory, std::size_t bytes, std::size_t owner,
                                    std::size_t self, std::size_t members) {
  to.parts.push_back({owner == self ? memory : nullptr, writable(memory), owner == self ? bytes : 0, {}});
  for (std::size_t member = 0; member < members; ++member)
    to.gathered.push_back(member == owner ? bytes : 0);
}

work hierarchical_allgather::before(std::size_t piece) const {
  work made = blank();
  const std::size_t neighbours = topology_.neighbours().size();
  const auto [from, bytes] = plan_.piece(piece, rows_.bytes());
  rows_.for_each(from, bytes, [&](const tensor_stream::piece& cut) {
    append(made, cut.memory, cut.bytes, cut.part % neighbours, topology_.position, neighbours);
  });
  return made;
}

work hierarchical_allgather::cross_host_group() const {
  work made = blank();
  for (std::size_t host = 0; host < blocks_.size(); ++host)
    for (std::size_t piece = 0; piece < plan_.pieces; ++piece) {
      const auto [from, bytes] = plan_.share(piece, topology_.position, blocks_[host].bytes());
      blocks_[host].for_each(from, bytes, [&](const tensor_stream::piece& found) {
        append(made, found.memory, found.bytes, host, topology_.host, blocks_.size());
      });
    }
  return made;
}

work hierarchical_allgather::after(std::size_t piece) const {
  work made = blank();
  for (std::size_t host = 0; host < blocks_.size(); ++host)
    for (std::size_t cross_host_group = 0;
         cross_host_group < plan_.cross_host_groups && host != topology_.host; ++cross_host_group) {
      const auto [from, bytes] = plan_.share(piece, cross_host_group, blocks_[host].bytes());
      blocks_[host].for_each(from, bytes, [&](const tensor_stream::piece& found) {
        append(made, found.memory, found.bytes, cross_host_group, topology_.position,
               topology_.neighbours().size());
      });
    }
  return made;
}

} // namespace farandole
