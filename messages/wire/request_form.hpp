// Encoding of signatures and requests, for the messages that contain them: a member's requests, and those that
// a relay has gathered. Also the parts that schedules share with them. Only messages/ includes this header.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "messages/wire/decoding.hpp"
#include "messages/wire/membership.hpp"
#include "messages/wire/negotiation.hpp"

namespace farandole::wire_form {

inline constexpr const char* list_rule = "a list is too long";
inline constexpr const char* id_rule = "an id is 0";

void start(wire::Envelope::Builder root, const address& from);
void write(wire::Signature::Builder to, const signature& value);
void write(wire::Request::Builder to, const request& value);
void write(wire::Requests::Builder to, const requests& value);
void write(capnp::List<wire::InlineValue>::Builder to, const std::vector<inline_value>& values);
void write_rounds(capnp::List<wire::Round>::Builder to, const std::vector<fast_path_round>& rounds);

signature read_signature(wire::Signature::Reader from, validation& so_far);
std::string read_name(capnp::Text::Reader text, validation& so_far);
void read_ids(capnp::List<std::uint32_t>::Reader from, std::vector<std::uint32_t>& ids, validation& so_far);
/// Numbers of buckets.
void read_buckets(capnp::List<std::uint32_t>::Reader from, std::vector<std::uint32_t>& buckets,
                  validation& so_far);
void read_rounds(capnp::List<wire::Round>::Reader from, std::vector<fast_path_round>& rounds,
                 validation& so_far);
/// Requires for each value an id other than 0 and at most `inline_limit_bytes`.
void read_values(capnp::List<wire::InlineValue>::Reader from, std::vector<inline_value>& values,
                 validation& so_far);
void read_request(wire::Request::Reader from, request& value, validation& so_far);
void read_requests(wire::Requests::Reader from, requests& value, validation& so_far);

inline capnp::Text::Reader name_of(const std::string& name) {
  assert(name.size() <= name_limit_bytes); // checked when the caller submits the tensor
  return text_of(name);
}

// The maximum number of elements of `type` whose size in bytes fits into an int64.
inline std::int64_t most_elements(dtype type) {
  return std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(size_of(type));
}

// Multiplies in place; false if the product would exceed `limit`. Neither factor is negative.
inline bool multiply(std::int64_t& product, std::int64_t factor, std::int64_t limit) {
  if (factor != 0 && product > limit / factor)
    return false;
  product *= factor;
  return true;
}

// Reads the fields that signatures and bundles have in common.
template <class Reader, class Value>
bool read_kind(Reader from, Value& value, validation& so_far) {
  auto type = dtype_from(from.getDtype());
  auto op = reduce_op_from(from.getReduceOp());
  if (!so_far.require(from.getOperation() < operation_count, "an operation's number is unknown") ||
      !so_far.require(type.has_value(), "a dtype's number is unknown") ||
      !so_far.require(op.has_value(), "a reduce op's number is unknown") ||
      !so_far.require(from.getMemory() < memory_kind_count, "a kind of memory is unknown"))
    return false;
  value.operation = static_cast<operation>(from.getOperation());
  value.dtype = *type;
  value.reduce_op = *op;
  value.root = from.getRoot();
  value.prescale = from.getPrescale();
  value.postscale = from.getPostscale();
  value.memory = static_cast<memory_kind>(from.getMemory());
  auto least_root = value.operation == operation::broadcast ? 0 : -1;
  return so_far.require(value.root >= least_root && value.root < member_limit, "a root is out of range");
}

// Reads a list of structs with `read_one(reader, value)`, up to the first broken rule.
template <class List, class Value, class ReadOne>
void read_list(List from, std::vector<Value>& values, validation& so_far, ReadOne read_one) {
  if (!so_far.require(from.size() <= list_limit, list_rule))
    return;
  values.reserve(from.size());
  for (kj::uint i = 0; i < from.size() && so_far.good(); ++i)
    read_one(from[i], values.emplace_back());
}

} // namespace farandole::wire_form
