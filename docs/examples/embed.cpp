// A service that embeds Farandole: replicas that answer requests with one model and add up their statistics.
//
//     ./embed                        one replica, without a launcher
//     horovodrun -np 2 ./embed       two; each learns its rank from the environment
//
// Replica 0 loads the model and broadcasts it; each replica answers some requests; then an allreduce adds up the
// statistics of all. Here a "model" is a version and a weight, and a "request" a number.
#include <array>
#include <iostream>
#include <span>
#include <utility>

#include <farandole/farandole.hpp>

namespace {

/// One replica's work. The kind of an error says what to do.
farandole::error serve(farandole::runtime& replicas) {
  std::array<double, 2> model{}; // version, weight
  if (replicas.rank() == 0)
    model = {1, 0.5};
  if (auto problem = replicas.broadcast("model", std::span(model), 0))
    return problem;

  std::array<double, 2> statistics{}; // replies, their sum
  for (auto request = 0; request <= replicas.rank(); ++request) {
    statistics[0] += 1;
    statistics[1] += model[1] * request;
  }
  if (auto problem = replicas.allreduce("statistics", std::span(statistics)))
    return problem;

  // Every replica has the same sums, bit by bit; one prints them.
  if (replicas.rank() == 0)
    std::cout << "replica 0 of " << replicas.size() << ": " << statistics[0] << " replies by model "
              << model[0] << ", their sum is " << statistics[1] << std::endl;
  return {};
}

int fail(const farandole::error& problem) {
  std::cerr << "embed: " << to_string(problem.kind) << ": " << problem.text << std::endl;
  return 1;
}

} // namespace

int main() {
  // Rank, size, addresses and the secret come from the environment that the launcher sets. A service with a launcher
  // of its own passes them in farandole::options.
  auto started = farandole::runtime::start();
  if (!started)
    return fail(started.error());
  auto replicas = std::move(*started);
  if (auto problem = serve(*replicas))
    return fail(problem);
  replicas->shutdown(); // in order: operations in flight complete first
  return 0;
}
