// A fake MPI that carries messages between threads, and that fails or carries no messages on request.
#pragma once

#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <tuple>

#include "collectives/transport/mpi/mpi_path.hpp"
#include "collectives/transport/paths_testing.hpp"

namespace farandole::testing {

/// The handle of a member's communicator is its rank. Request handles are indexes of entries.
struct fake_mpi {
  struct entry {
    bool receives;
    std::int32_t from, to, tag;
    const void* data;
    void* target;
    std::size_t bytes; ///< for a finished receive: the number of received bytes
    bool done = false;
  };
  std::mutex guard;
  std::deque<entry> entries;
  bool held = false; ///< if set, no message is carried
  int send_code = 0; ///< return code of send()
  /// The step that fails with `failing_code`. Steps are the starts and ends of messages, counted from 0.
  std::size_t failing = SIZE_MAX;
  std::size_t steps = 0;
  std::int32_t failed = -1; ///< rank of the member whose step has failed
  static constexpr int failing_code = 17;
  bool initialized_elsewhere = false;
  int finalized = 0;

  /// The return code of the next step, which this member takes.
  int step_of(std::int32_t rank) {
    if (steps++ != failing)
      return 0;
    failed = rank;
    return failing_code;
  }

  std::size_t asked() {
    std::lock_guard lock(guard);
    return entries.size();
  }

  /// Pairs each receive with the earliest send that fits.
  void carry() {
    if (held)
      return;
    for (auto& in : entries)
      for (auto& entry : entries)
        if (in.receives && !in.done && !entry.receives && !entry.done &&
            std::tie(in.from, in.to, in.tag) == std::tie(entry.from, entry.to, entry.tag)) {
          in.bytes = std::min(in.bytes, entry.bytes); // no test sends more bytes than the receiver expects
          if (in.bytes > 0)
            std::memcpy(in.target, entry.data, in.bytes);
          in.done = entry.done = true;
          break;
        }
  }
};

inline fake_mpi* world = nullptr;

inline int look(mpi_state* state) {
  *state = {true, false, false, mpi_level::multiple, 0, 4, 32767};
  if (world->initialized_elsewhere)
    state->level = mpi_level::single;
  return 0;
}
inline int initialize(mpi_level) {
  return 0;
}
inline int finalize() {
  ++world->finalized;
  return 0;
}
inline int form(const std::int32_t*, std::int32_t, mpi_handle*) {
  return 1;
}
inline int send(mpi_handle group, std::int32_t peer, std::int32_t tag, const void* data, std::size_t bytes,
                mpi_handle* request) {
  std::lock_guard lock(world->guard);
  world->entries.push_back({false, static_cast<std::int32_t>(group), peer, tag, data, nullptr, bytes});
  *request = world->entries.size() - 1;
  const int code = world->step_of(static_cast<std::int32_t>(group));
  return code != 0 ? code : world->send_code;
}
inline int receive(mpi_handle group, std::int32_t peer, std::int32_t tag, void* data, std::size_t bytes,
                   mpi_handle* request) {
  std::lock_guard lock(world->guard);
  world->entries.push_back({true, peer, static_cast<std::int32_t>(group), tag, nullptr, data, bytes});
  *request = world->entries.size() - 1;
  return world->step_of(static_cast<std::int32_t>(group));
}
inline int test(mpi_handle* requests, std::int32_t count, std::int32_t* done, std::int32_t* places,
                std::int32_t* codes, std::uint64_t* received) {
  std::lock_guard lock(world->guard);
  world->carry();
  *done = 0;
  for (std::int32_t at = 0; at < count; ++at)
    if (const auto& entry = world->entries[requests[at]]; entry.done) {
      places[*done] = at;
      received[*done] = entry.bytes;
      codes[(*done)++] = world->step_of(entry.receives ? entry.to : entry.from);
    }
  return 0;
}
inline int cancel(mpi_handle) {
  return 0;
}
inline void describe(int code, char* text, std::size_t bytes) {
  std::snprintf(text, bytes, "code %d", code);
}

inline constexpr mpi_module module{
    mpi_module_version, look, initialize, finalize, form, send, receive, test, cancel, describe};

/// Several members, each with its own engine, like separate processes.
struct mpi_members {
  explicit mpi_members(std::int32_t size) {
    world = &mpi;
    for (std::int32_t rank = 0; rank < size; ++rank) {
      engines.push_back(std::make_unique<mpi_engine>(module));
      std::vector<std::int32_t> places;
      for (std::int32_t number = 0; number < size; ++number)
        places.push_back(number);
      const mpi_group job{static_cast<mpi_handle>(rank), rank, size, 32767};
      paths.push_back(make_mpi_path(
          mpi_set{engines.back().get(), job, 5, places, rank, futex_wait::decide(2)}, std::size_t{1} << 20));
    }
  }
  /// Stops carrying messages first, so that the memory of an ended engine is not accessed.
  ~mpi_members() {
    {
      std::lock_guard lock(mpi.guard);
      mpi.held = true;
    }
    paths.clear();
    engines.clear();
    world = nullptr;
  }
  void run(const std::function<void(std::size_t, p2p_path&)>& act) {
    together(static_cast<std::uint32_t>(paths.size()), [&](std::uint32_t rank) { act(rank, *paths[rank]); });
  }
  deadline_and_abort deadline(steady_clock::time_point deadline = far()) const {
    return {abort, deadline, "patience (TEST_PATIENCE) = 240 s"};
  }

  fake_mpi mpi;
  abort_token abort;
  std::vector<std::unique_ptr<mpi_engine>> engines;
  std::vector<std::unique_ptr<p2p_path>> paths;
};

} // namespace farandole::testing
