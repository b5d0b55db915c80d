#include "collectives/negotiation/signature_check.hpp"

#include <bit>
#include <cassert>
#include <charconv>
#include <string>

#include "collectives/operation.hpp"
#include "messages/values/printable.hpp"

namespace farandole {

namespace {

// Adasum counts as an operation of its own: its requests cannot be mixed with those of other reductions.
bool adaptive(const signature& signature) {
  return row_of(signature.operation).reduces && signature.reduce_op == reduce_op::adasum;
}

std::string kind(const signature& signature) {
  return std::string(adaptive(signature) ? "adasum " : "") + std::string(row_of(signature.operation).name);
}

std::string shortest(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string scales(const signature& signature) {
  return "prescale " + shortest(signature.prescale) + " and postscale " + shortest(signature.postscale);
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Whether the neutral elements of joined ranks stay neutral: in host memory, and in tensors of GPUs that are staged
/// there, they are scaled like tensors. A factor moves the 1 of a product and the largest integer; a negative one
/// exchanges the infinities.
bool keeps_neutral(const signature& signature) {
  if (signature.prescale == 1.0)
    return true;
  switch (signature.reduce_op) {
  case reduce_op::min:
  case reduce_op::max:
    return signature.dtype >= dtype::float16 && signature.prescale > 0;
  case reduce_op::product:
    return false;
  default:
    return true;
  }
}

/// Whether the shapes are equal except for the first extent. They must have the same number of dimensions.
bool same_but_first(const shape& a, const shape& b) {
  for (std::size_t i = 1; i < a.size(); ++i)
    if (a[i] != b[i])
      return false;
  return true;
}

struct check {
  bool (*applies)(const operation_row&);
  bool (*equal)(const signature&, const signature&);
  std::string (*value)(const signature&);
  std::string_view subject; ///< "shapes"
  std::string_view wish;    ///< "every rank must …"
};

bool always(const operation_row&) {
  return true;
}

constexpr check before_join[] = {
    {always,
     [](const signature& a, const signature& b) {
       return a.operation == b.operation && adaptive(a) == adaptive(b);
     },
     kind, "operations", "ask for the same operation"},
    {always, [](const signature& a, const signature& b) { return a.dtype == b.dtype; },
     [](const signature& s) { return std::string(to_string(s.dtype)); }, "dtypes", "submit the same dtype"},
    {[](const operation_row& row) { return !row.first_dim_free(); },
     [](const signature& a, const signature& b) { return a.shape == b.shape; },
     [](const signature& s) { return to_string(s.shape); }, "shapes", "submit the same shape"},
    {[](const operation_row& row) { return row.reduces; },
     [](const signature& a, const signature& b) {
       return same_bits(a.prescale, b.prescale) && same_bits(a.postscale, b.postscale);
     },
     scales, "scale factors", "use the same factors"},
    {[](const operation_row& row) { return row.reduces; },
     [](const signature& a, const signature& b) { return a.reduce_op == b.reduce_op; },
     [](const signature& s) { return std::string(to_string(s.reduce_op)); }, "reduce ops",
     "use the same reduce op"},
};

constexpr check after_join[] = {
    {[](const operation_row& row) { return row.first_dim_free(); },
     [](const signature& a, const signature& b) { return a.shape.size() == b.shape.size(); },
     [](const signature& s) { return to_string(s.shape); }, "numbers of dimensions",
     "submit as many dimensions"},
    {[](const operation_row& row) { return row.first_dim_free(); },
     [](const signature& a, const signature& b) { return same_but_first(a.shape, b.shape); },
     [](const signature& s) { return to_string(s.shape); }, "shapes",
     "submit the same shape but for the first dimension"},
    {[](const operation_row& row) { return row.has_root; },
     [](const signature& a, const signature& b) { return a.root == b.root; },
     [](const signature& s) { return "root " + std::to_string(s.root); }, "roots", "name the same root"},
    {always, [](const signature& a, const signature& b) { return a.memory == b.memory; },
     [](const signature& s) {
       return std::string(s.memory == memory_kind::host ? "host memory" : "GPU memory");
     },
     "kinds of memory", "submit the tensor from the same kind"},
};

/// Under one name, it is mostly the reduction of a gradient that is an allgather on some ranks and an allreduce on
/// others.
std::string remedy(const asked_by& first, const asked_by& other) {
  const bool first_gathers = first.value->operation == operation::allgather;
  const auto& gathers = first_gathers ? first : other;
  const auto& reduces = first_gathers ? other : first;
  if (gathers.value->operation != operation::allgather || reduces.value->operation != operation::allreduce)
    return {};
  return "; if it is a gradient, it is sparse on rank " + std::to_string(gathers.rank) +
         ", and dense or missing on rank " + std::to_string(reduces.rank) +
         ": pass sparse_as_dense=True on all ranks";
}

template <std::size_t N>
error first_failing(const check (&checks)[N], std::string_view name, std::span<const asked_by> askers) {
  const auto& first = askers.front();
  for (const auto& check : checks) {
    if (!check.applies(row_of(first.value->operation)))
      continue;
    for (const auto& other : askers.subspan(1))
      if (!check.equal(*first.value, *other.value))
        return {error_kind::mismatch, printable_name(name) + ": " + std::string(check.subject) +
                                          " differ: rank " + std::to_string(first.rank) + " has " +
                                          check.value(*first.value) + ", rank " + std::to_string(other.rank) +
                                          " has " + check.value(*other.value) + "; every rank must " +
                                          std::string(check.wish) + remedy(first, other)};
  }
  return {};
}

std::string listed(std::span<const std::int32_t> ranks) {
  constexpr std::size_t shown = 6;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < shown; ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text + (ranks.size() > shown ? ", …" : "");
}

} // namespace

error disagreement(std::string_view name, std::span<const asked_by> askers,
                   std::span<const std::int32_t> joined) {
  assert(!askers.empty());
  if (auto problem = first_failing(before_join, name, askers))
    return problem;
  const auto& first = *askers.front().value;
  const auto& row = row_of(first.operation);
  if (!joined.empty() && !(row.takes_zeros && keeps_neutral(first)))
    return {error_kind::precondition,
            printable_name(name) + ": " + std::string(row.name) +
                (row.takes_zeros
                     ? " by " + std::string(to_string(first.reduce_op)) + " with a prescale factor"
                     : "") +
                " is not supported with join: " + listed(joined) + " joined already"};
  if (row.has_rows() && first.shape.empty())
    return {error_kind::precondition, printable_name(name) + ": " + std::string(row.name) +
                                          " of a scalar on rank " + std::to_string(askers.front().rank) +
                                          "; give it a dimension first"};
  return first_failing(after_join, name, askers);
}

} // namespace farandole
