// A service that embeds Farandole: replicas that answer requests by one model and keep their books together.
//
//     ./embed                        one replica, no launcher needed
//     horovodrun -np 2 ./embed       two; the launcher tells each that it is
//
// Replica 0 loads the model and hands it to the others; each answers some requests; then all add up what they
// did. Here a "model" is a version and a weight, and a "request" a number.
#include <array>
#include <cstdint>
#include <iostream>
#include <string_view>
#include <utility>

#include <farandole/farandole.hpp>

namespace {

using farandole::dtype;
using farandole::operation;

/// Copies `values` of replica 0 to all, or adds them up over all, in place. Waits until that is done; a
/// service that has better things to do keeps the handle and asks settled() now and then.
template <std::size_t Count>
farandole::error exchange(farandole::runtime& replicas, std::string_view name, operation op,
                          std::array<double, Count>& values) {
  farandole::submission request;
  request.name = name; // equal names meet; names that recur are fastest
  request.signature.operation = op;
  request.signature.dtype = dtype::float64;
  request.signature.reduce_op = farandole::reduce_op::sum;
  request.signature.root = op == operation::broadcast ? 0 : -1;
  request.signature.shape = {Count};
  request.input = reinterpret_cast<const std::byte*>(values.data());
  request.output =
      reinterpret_cast<std::byte*>(values.data()); // in place; ours again once the handle is settled
  auto handle = replicas.submit(request);
  return handle ? handle->wait() : handle.error();
}

/// One replica's work; the error tells what to do if it failed.
farandole::error serve(farandole::runtime& replicas) {
  std::array<double, 2> model{}; // version, weight
  if (replicas.rank() == 0)
    model = {1, 0.5};
  if (auto problem = exchange(replicas, "model", operation::broadcast, model))
    return problem;

  std::array<double, 2> books{}; // replies, their sum
  for (auto request = 0; request <= replicas.rank(); ++request) {
    books[0] += 1;
    books[1] += model[1] * request;
  }
  if (auto problem = exchange(replicas, "books", operation::allreduce, books))
    return problem;

  // Every replica has the same sums, bit by bit; one of them says so.
  if (replicas.rank() == 0)
    std::cout << "replica 0 of " << replicas.size() << ": " << books[0] << " replies by model " << model[0]
              << ", their sum is " << books[1] << std::endl;
  return {};
}

int fail(const farandole::error& problem) {
  std::cerr << "embed: " << to_string(problem.kind) << ": " << problem.text << std::endl;
  return 1;
}

} // namespace

int main() {
  // Rank, size, addresses and the secret come from the environment that the launcher made. A service with a
  // launcher of its own fills in farandole::options instead; several runtimes, of several jobs, may live in
  // one process.
  auto started = farandole::runtime::start();
  if (!started)
    return fail(started.error());
  auto replicas = std::move(*started);
  if (auto problem = serve(*replicas))
    return fail(problem);
  replicas->shutdown(); // in order: what the others have still in flight with us is finished first
  return 0;
}
