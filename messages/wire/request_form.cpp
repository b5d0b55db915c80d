#include "messages/wire/request_form.hpp"

#include "messages/wire/departure_form.hpp"
#include "messages/wire/set_change_form.hpp"

namespace farandole::wire_form {

namespace {

constexpr const char* name_rule = "a name is longer than 4096 bytes";

} // namespace

// ---- encoding -----------------------------------------------------------------------------------

void start(wire::Envelope::Builder root, const address& from) {
  root.setGeneration(from.generation);
  root.setSet(from.set);
  root.setSource(from.source);
  root.setTarget(from.target);
}

void write(wire::Signature::Builder to, const signature& value) {
  to.setOperation(static_cast<std::uint8_t>(value.operation));
  to.setDtype(static_cast<std::uint8_t>(value.dtype));
  to.setReduceOp(static_cast<std::uint8_t>(value.reduce_op));
  to.setRoot(value.root);
  to.setPrescale(value.prescale);
  to.setPostscale(value.postscale);
  to.setMemory(static_cast<std::uint8_t>(value.memory));
  if (value.shape.empty())
    return;
  auto extents = to.initShape(static_cast<kj::uint>(value.shape.size()));
  for (kj::uint i = 0; i < extents.size(); ++i)
    extents.set(i, value.shape[i]);
}

void write(wire::Request::Builder to, const request& value) {
  to.setName(name_of(value.name));
  write(to.initSignature(), value.signature);
  to.setGroup(value.group);
  to.setGroupSize(value.group_size);
  to.setNoFastPath(value.no_fast_path);
  to.setDevice(value.device);
  to.setAbsent(value.absent);
}

void write(wire::Requests::Builder to, const requests& value) {
  if (!value.ids.empty())
    write_numbers(to.initIds(count_of(value.ids)), value.ids);
  if (!value.buckets.empty())
    write_numbers(to.initBuckets(count_of(value.buckets)), value.buckets);
  if (!value.full.empty()) {
    auto list = to.initFull(count_of(value.full));
    for (kj::uint i = 0; i < list.size(); ++i)
      write(list[i], value.full[i]);
  }
  if (!value.left.empty())
    write_rounds(to.initLeft(count_of(value.left)), value.left);
  to.setJoin(value.join);
  if (value.leaves)
    write(to.initLeaves(), *value.leaves);
  if (!value.withdraw.empty()) {
    auto list = to.initWithdraw(count_of(value.withdraw));
    for (kj::uint i = 0; i < list.size(); ++i)
      list.set(i, name_of(value.withdraw[i]));
  }
  if (value.change)
    write(to.initChange(), *value.change);
  to.setFinished(value.finished);
  if (!value.faults.empty())
    write(to.initFaults(count_of(value.faults)), value.faults);
  if (!value.values.empty())
    write(to.initValues(count_of(value.values)), value.values);
}

void write(capnp::List<wire::InlineValue>::Builder to, const std::vector<inline_value>& values) {
  write_each(to, values, [](wire::InlineValue::Builder entry, const inline_value& value) {
    entry.setId(value.id);
    entry.setBytes({reinterpret_cast<const kj::byte*>(value.bytes.data()), value.bytes.size()});
  });
}

void write_rounds(capnp::List<wire::Round>::Builder to, const std::vector<fast_path_round>& rounds) {
  for (kj::uint i = 0; i < to.size(); ++i) {
    to[i].setId(rounds[i].id);
    to[i].setRound(rounds[i].round);
  }
}

// ---- decoding -----------------------------------------------------------------------------------

signature read_signature(wire::Signature::Reader from, validation& so_far) {
  signature value;
  if (!read_kind(from, value, so_far))
    return value;
  auto extents = from.getShape();
  if (!so_far.require(extents.size() <= dimension_limit, "a shape has more than 64 dimensions"))
    return value;
  value.shape.reserve(extents.size());
  // Zeros are skipped, so that the product of the other extents is in range in any order of multiplication.
  std::int64_t elements = 1;
  for (auto extent : extents) {
    if (!so_far.require(extent >= 0, "an extent is negative") ||
        !so_far.require(multiply(elements, extent == 0 ? 1 : extent, most_elements(value.dtype)),
                        "a shape holds more elements than can be counted"))
      return value;
    value.shape.push_back(extent);
  }
  return value;
}

std::string read_name(capnp::Text::Reader text, validation& so_far) {
  so_far.require(text.size() > 0, "a name is empty");
  return read_text(text, name_limit_bytes, name_rule, so_far);
}

void read_ids(capnp::List<std::uint32_t>::Reader from, std::vector<std::uint32_t>& ids, validation& so_far) {
  if (!so_far.require(from.size() <= list_limit, list_rule))
    return;
  ids.resize(from.size());
  bool any_zero = false;
  for (kj::uint i = 0; i < from.size(); ++i) {
    ids[i] = from[i];
    any_zero |= ids[i] == 0;
  }
  so_far.require(!any_zero, id_rule);
}

void read_buckets(capnp::List<std::uint32_t>::Reader from, std::vector<std::uint32_t>& buckets,
                  validation& so_far) {
  if (so_far.require(from.size() <= bucket_limit, "too many buckets come at once"))
    read_ids(from, buckets, so_far);
}

void read_rounds(capnp::List<wire::Round>::Reader from, std::vector<fast_path_round>& rounds,
                 validation& so_far) {
  read_list(from, rounds, so_far, [&](wire::Round::Reader source, fast_path_round& round) {
    round = {source.getId(), source.getRound()};
    so_far.require(round.id != 0, id_rule);
  });
}

void read_values(capnp::List<wire::InlineValue>::Reader from, std::vector<inline_value>& values,
                 validation& so_far) {
  read_list(from, values, so_far, [&](wire::InlineValue::Reader source, inline_value& value) {
    value.id = source.getId();
    const auto bytes = source.getBytes();
    if (so_far.require(value.id != 0, id_rule) &&
        so_far.require(bytes.size() <= inline_limit_bytes, "an inline tensor is larger than 64 KiB"))
      value.bytes.assign(reinterpret_cast<const std::byte*>(bytes.begin()),
                         reinterpret_cast<const std::byte*>(bytes.end()));
  });
}

void read_request(wire::Request::Reader from, request& value, validation& so_far) {
  value.name = read_name(from.getName(), so_far);
  value.signature = read_signature(from.getSignature(), so_far);
  value.group = from.getGroup();
  value.group_size = from.getGroupSize();
  value.no_fast_path = from.getNoFastPath();
  value.device = from.getDevice();
  value.absent = from.getAbsent();
  so_far.require(value.group == 0 || (value.group_size > 0 && value.group_size <= list_limit),
                 "a group's size is out of range");
  const auto asked = value.signature.operation;
  so_far.require(!value.absent || asked == operation::allreduce || asked == operation::allgather,
                 "an operation is absent that is neither an allreduce nor an allgather");
}

void read_requests(wire::Requests::Reader from, requests& value, validation& so_far) {
  read_ids(from.getIds(), value.ids, so_far);
  read_buckets(from.getBuckets(), value.buckets, so_far);
  read_list(from.getFull(), value.full, so_far,
            [&](wire::Request::Reader source, request& request) { read_request(source, request, so_far); });
  read_rounds(from.getLeft(), value.left, so_far);
  value.join = from.getJoin();
  if (from.hasLeaves())
    value.leaves = read(from.getLeaves(), so_far);
  read_list(from.getWithdraw(), value.withdraw, so_far,
            [&](capnp::Text::Reader source, std::string& name) { name = read_name(source, so_far); });
  if (from.hasChange())
    value.change = read(from.getChange(), so_far);
  value.finished = from.getFinished();
  if (so_far.require(from.getFaults().size() <= set_limit, "too many process sets failed at once"))
    read_list(from.getFaults(), value.faults, so_far,
              [&](wire::SetFault::Reader source, set_fault& set_fault) { set_fault = read(source, so_far); });
  read_values(from.getValues(), value.values, so_far);
}

} // namespace farandole::wire_form
