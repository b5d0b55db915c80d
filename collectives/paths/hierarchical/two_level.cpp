#include "collectives/paths/hierarchical/two_level.hpp"

#include <cassert>
#include <cstring>
#include <numeric>

#include "collectives/math/reduce.hpp"

namespace farandole {

namespace {

/// Largest share, as large as a piece of the ucx path; and what shares are a multiple of.
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

two_level_allreduce::two_level_allreduce(const work& bundle, const hierarchy& where, joined_memory& joined)
    : bundle_(bundle), where_(where), joined_(joined), members_(0) {
  for (const auto& host : where.hosts)
    members_ += host.size();
  bool has_joined = false;
  for (const auto& each : bundle.parts) {
    stream_.append(each.input_bytes);
    has_joined = has_joined || !each.input || !each.output;
  }
  plan_ = share_plan::of(stream_.bytes(), where.columns, share_bytes, share_unit);
  if (!has_joined || plan_.pieces == 0)
    return;
  const std::size_t piece = plan_.share_bytes * plan_.columns;
  joined_.inputs.resize(piece);
  fill_neutral(bundle.dtype, bundle.reduce_op, joined_.inputs.data(), piece / size_of(bundle.dtype));
  joined_.shares.resize(plan_.share_bytes * pieces_under_way);
  joined_.outputs.resize(piece);
}

bool two_level_allreduce::scales_early() const {
  return is_narrow(bundle_.dtype) && is_sum(bundle_.reduce_op);
}

double two_level_allreduce::factor() const {
  return bundle_.reduce_op == reduce_op::average ? bundle_.postscale / static_cast<double>(members_)
                                                 : bundle_.postscale;
}

work two_level_allreduce::blank(operation kind) const {
  work made;
  made.sequence = bundle_.sequence;
  made.operation = kind;
  made.dtype = bundle_.dtype;
  made.reduce_op = is_sum(bundle_.reduce_op) ? reduce_op::sum : bundle_.reduce_op;
  return made;
}

std::byte* two_level_allreduce::home(std::size_t piece, std::size_t part, std::size_t offset,
                                     std::size_t in_share) const {
  if (std::byte* output = bundle_.parts[part].output)
    return output + offset;
  return joined_.shares.data() + piece % pieces_under_way * plan_.share_bytes + in_share;
}

template <class Own>
void two_level_allreduce::divide(std::size_t piece, std::size_t from, std::size_t bytes,
                                 std::vector<std::size_t>& sizes, const Own& own) const {
  for (std::size_t place = 0; place < where_.neighbours().size(); ++place) {
    const auto share = plan_.share(piece, place, stream_.bytes());
    const std::size_t begin = std::max(from, share.from);
    const std::size_t end = std::min(from + bytes, share.from + share.bytes);
    sizes.push_back(end > begin ? end - begin : 0);
    if (place == where_.place && end > begin)
      own(begin, end - begin, begin - share.from);
  }
}

work two_level_allreduce::before(std::size_t piece) const {
  work made = blank(operation::reducescatter);
  made.prescale = bundle_.prescale;
  if (scales_early())
    made.postscale = factor();
  const auto [from, bytes] = plan_.piece(piece, stream_.bytes());
  stream_.each(from, bytes, [&, from = from](const tensor_stream::piece& cut) {
    const part& whole = bundle_.parts[cut.part];
    part here;
    here.input = whole.input ? whole.input + cut.offset : joined_.inputs.data();
    here.input_bytes = cut.bytes;
    const std::size_t at = from + cut.at;
    divide(piece, at, cut.bytes, made.sent, [&](std::size_t begin, std::size_t, std::size_t in_share) {
      here.output = home(piece, cut.part, cut.offset + (begin - at), in_share);
    });
    made.parts.push_back(here);
  });
  return made;
}

work two_level_allreduce::column() const {
  work made = blank(operation::allreduce);
  if (!scales_early())
    made.postscale = factor();
  for (std::size_t piece = 0; piece < plan_.pieces; ++piece) {
    const auto [from, bytes] = plan_.share(piece, where_.place, stream_.bytes());
    stream_.each(from, bytes, [&](const tensor_stream::piece& cut) {
      std::byte* const memory = home(piece, cut.part, cut.offset, cut.at);
      made.parts.push_back({memory, memory, cut.bytes, {}});
    });
  }
  return made;
}

work two_level_allreduce::after(std::size_t piece) const {
  work made = blank(operation::allgather);
  const auto [from, bytes] = plan_.piece(piece, stream_.bytes());
  stream_.each(from, bytes, [&, from = from](const tensor_stream::piece& cut) {
    const part& whole = bundle_.parts[cut.part];
    part here;
    here.output = whole.output ? whole.output + cut.offset : joined_.outputs.data() + cut.at;
    const std::size_t at = from + cut.at;
    divide(piece, at, cut.bytes, made.gathered,
           [&](std::size_t begin, std::size_t length, std::size_t in_share) {
             here.input = home(piece, cut.part, cut.offset + (begin - at), in_share);
             here.input_bytes = length;
           });
    made.parts.push_back(here);
  });
  return made;
}

// ---- allgather -----------------------------------------------------------------------------------

two_level_allgather::two_level_allgather(const work& bundle, const hierarchy& where)
    : bundle_(bundle), where_(where), blocks_(where.hosts.size()) {
  std::size_t members = 0;
  for (const auto& host : where.hosts)
    members += host.size();
  assert(bundle.gathered.size() == bundle.parts.size() * members);
  std::vector<std::size_t> starts(members);
  const auto self = static_cast<std::size_t>(where.neighbours()[where.place]);
  for (std::size_t at = 0; at < bundle.parts.size(); ++at) {
    const auto sizes = std::span(bundle.gathered).subspan(at * members, members);
    std::exclusive_scan(sizes.begin(), sizes.end(), starts.begin(), std::size_t{0});
    const part& each = bundle.parts[at];
    // First of all: should input and output be one, the place of the input belongs to somebody else.
    if (sizes[self] != 0 && each.output + starts[self] != each.input)
      std::memmove(each.output + starts[self], each.input, sizes[self]);
    for (std::size_t host = 0; host < where.hosts.size(); ++host)
      for (const std::int32_t member : where.hosts[host]) {
        const auto from = static_cast<std::size_t>(member);
        blocks_[host].append(sizes[from], each.output + starts[from]);
        if (host != where.host)
          continue;
        rows_.append(sizes[from], each.output + starts[from]);
      }
  }
  std::size_t longest = 0;
  for (const auto& block : blocks_)
    longest = std::max(longest, block.bytes());
  plan_ = share_plan::of(longest, where.columns, gathered_share(where.hosts.size()), share_unit);
}

work two_level_allgather::blank() const {
  work made;
  made.sequence = bundle_.sequence;
  made.operation = operation::allgather;
  made.dtype = bundle_.dtype;
  return made;
}

void two_level_allgather::append(work& to, const std::byte* memory, std::size_t bytes, std::size_t owner,
                                 std::size_t self, std::size_t members) {
  to.parts.push_back({owner == self ? memory : nullptr, writable(memory), owner == self ? bytes : 0, {}});
  for (std::size_t member = 0; member < members; ++member)
    to.gathered.push_back(member == owner ? bytes : 0);
}

work two_level_allgather::before(std::size_t piece) const {
  work made = blank();
  const std::size_t neighbours = where_.neighbours().size();
  const auto [from, bytes] = plan_.piece(piece, rows_.bytes());
  rows_.each(from, bytes, [&](const tensor_stream::piece& cut) {
    append(made, cut.memory, cut.bytes, cut.part % neighbours, where_.place, neighbours);
  });
  return made;
}

work two_level_allgather::column() const {
  work made = blank();
  for (std::size_t host = 0; host < blocks_.size(); ++host)
    for (std::size_t piece = 0; piece < plan_.pieces; ++piece) {
      const auto [from, bytes] = plan_.share(piece, where_.place, blocks_[host].bytes());
      blocks_[host].each(from, bytes, [&](const tensor_stream::piece& found) {
        append(made, found.memory, found.bytes, host, where_.host, blocks_.size());
      });
    }
  return made;
}

work two_level_allgather::after(std::size_t piece) const {
  work made = blank();
  for (std::size_t host = 0; host < blocks_.size(); ++host)
    for (std::size_t column = 0; column < plan_.columns && host != where_.host; ++column) {
      const auto [from, bytes] = plan_.share(piece, column, blocks_[host].bytes());
      blocks_[host].each(from, bytes, [&](const tensor_stream::piece& found) {
        append(made, found.memory, found.bytes, column, where_.place, where_.neighbours().size());
      });
    }
  return made;
}

} // namespace farandole
