// Shared by the tests of Adasum: inputs that are equal for equal arguments, and a straightforward model of
// the expected results.
#pragma once

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "collectives/math/adasum.hpp"
#include "collectives/transport/paths_testing.hpp"
#include "collectives/transport/shm/shm_path.hpp"

namespace farandole::testing {

/// The elements as doubles, computed as their products with 1.
inline std::vector<double> numbers_of(dtype type, const bytes& memory) {
  bytes part(8);
  const std::uint16_t half = 0x3c00, brain = 0x3f80;
  const float single = 1.0F;
  const double whole = 1.0;
  switch (type) {
  case dtype::float16:
    std::memcpy(part.data(), &half, sizeof half);
    break;
  case dtype::bfloat16:
    std::memcpy(part.data(), &brain, sizeof brain);
    break;
  case dtype::float32:
    std::memcpy(part.data(), &single, sizeof single);
    break;
  default:
    std::memcpy(part.data(), &whole, sizeof whole);
  }
  std::vector<double> result;
  for (std::size_t at = 0; at < memory.size(); at += size_of(type))
    result.push_back(products_of(type, memory.data() + at, part.data(), 1).ab);
  return result;
}

inline std::vector<double> adasum_model(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t at = 0; at < a.size(); ++at) {
    ab += a[at] * b[at];
    aa += a[at] * a[at];
    bb += b[at] * b[at];
  }
  std::vector<double> result;
  for (std::size_t at = 0; at < a.size(); ++at)
    result.push_back((aa == 0 ? 1 : 1 - ab / (2 * aa)) * a[at] + (bb == 0 ? 1 : 1 - ab / (2 * bb)) * b[at]);
  return result;
}

struct adasum_recipe {
  farandole::dtype dtype;
  std::vector<std::size_t> counts; ///< by part
  double prescale = 1.0;
  double postscale = 1.0;
  std::size_t first_part = 0; ///< seed offset: part 0 has the contents of this part

  std::vector<bytes> inputs(std::int32_t rank) const {
    std::vector<bytes> made;
    for (std::size_t part = 0; part < counts.size(); ++part) {
      std::mt19937 random(static_cast<unsigned>(100 * rank) + static_cast<unsigned>(first_part + part));
      made.push_back(random_elements(dtype, counts[part], random));
    }
    return made;
  }

  work bundle(std::vector<bytes>& inputs, std::vector<bytes>& outputs) const {
    work made;
    made.dtype = dtype;
    made.reduce_op = reduce_op::adasum;
    made.prescale = prescale;
    made.postscale = postscale;
    for (std::size_t part = 0; part < inputs.size(); ++part)
      made.parts.push_back({inputs[part].data(), outputs[part].data(), inputs[part].size(), {}});
    return made;
  }

  /// Describes the first element that differs too much from the model; "" if there is none.
  std::string problem_with(const std::vector<bytes>& outputs, std::uint32_t members) const {
    const double tolerance = dtype == dtype::float64   ? 1e-12
                             : dtype == dtype::float32 ? 1e-5
                             : dtype == dtype::float16 ? 6e-3
                                                       : 5e-2;
    std::vector<std::vector<bytes>> inputs_by_rank;
    for (std::uint32_t rank = 0; rank < members; ++rank)
      inputs_by_rank.push_back(inputs(static_cast<std::int32_t>(rank)));
    for (std::size_t part = 0; part < counts.size(); ++part) {
      std::vector<std::vector<double>> vectors;
      for (const auto& by_member : inputs_by_rank)
        vectors.push_back(numbers_of(dtype, by_member[part]));
      while (vectors.size() > 1) {
        std::vector<std::vector<double>> next;
        for (std::size_t at = 0; at < vectors.size(); at += 2)
          next.push_back(adasum_model(vectors[at], vectors[at + 1]));
        vectors = std::move(next);
      }
      const auto got = numbers_of(dtype, outputs[part]);
      for (std::size_t at = 0; at < got.size(); ++at)
        if (!(std::abs(got[at] - vectors[0][at]) <= tolerance * (4 + std::abs(vectors[0][at]))))
          return "part " + std::to_string(part) + " element " + std::to_string(at) + " is " +
                 std::to_string(got[at]) + ", not " + std::to_string(vectors[0][at]);
    }
    return "";
  }
};

inline constexpr futex_wait adasum_waiting{futex_wait::polling::yielding, std::chrono::microseconds(5),
                                           yield_policy(true)};

/// Members of one host, as threads.
struct adasum_host {
  explicit adasum_host(std::uint32_t members, std::size_t chunk = 4096, std::uint32_t slots = 3)
      : members(members) {
    segment_layout layout;
    layout.members = members;
    layout.chunk_bytes = chunk;
    layout.slots = slots;
    segments = make_segments(layout);
    for (std::uint32_t rank = 0; rank < members; ++rank)
      paths.push_back(std::make_unique<shm_path>(segments[rank], rank, adasum_waiting));
  }

  /// The outputs by member and part. The member `joined` contributes nothing.
  std::vector<std::vector<bytes>> run(const adasum_recipe& recipe, bool in_place = false,
                                      std::int32_t joined = -1) {
    std::vector<std::vector<bytes>> outputs(members);
    std::vector<error> errors(members);
    std::vector<std::vector<bytes>> inputs_after(
        members); // the inputs after the run: Catch's assertions must run in one thread
    together(members, [&](std::uint32_t rank) {
      auto inputs = recipe.inputs(static_cast<std::int32_t>(rank));
      outputs[rank] = inputs;
      work bundle = recipe.bundle(in_place ? outputs[rank] : inputs, outputs[rank]);
      if (static_cast<std::int32_t>(rank) == joined)
        for (auto& part : bundle.parts)
          part = {nullptr, nullptr, part.input_bytes, {}};
      errors[rank] = paths[rank]->run(bundle, {abort, far(), "test deadline"}).error;
      inputs_after[rank] = std::move(inputs);
    });
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      REQUIRE(errors[rank].text == "");
      if (!in_place)
        CHECK(inputs_after[rank] == recipe.inputs(static_cast<std::int32_t>(rank)));
    }
    return outputs;
  }

  std::uint32_t members;
  std::vector<std::shared_ptr<shm_segment>> segments;
  std::vector<std::unique_ptr<shm_path>> paths;
  abort_token abort;
};

/// Element counts of the parts of various bundles: no elements, fewer elements than members, odd sizes, many
/// parts, and more bytes than a slot holds.
inline const std::vector<std::vector<std::size_t>> adasum_counts = {
    {0}, {1}, {3}, {1001}, {20'011}, {1, 0, 3, 1024, 2, 5001, 0, 5}, std::vector<std::size_t>(300, 17)};

} // namespace farandole::testing
