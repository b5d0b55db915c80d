// The ucx path between real processes: each member is a forked child; the parent only passes addresses and
// words between them, and no UCX is ever loaded into it.
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/math/reduce.hpp"
#include "collectives/paths/ucx_path.hpp"
#include "collectives/paths/ucx_stream.hpp"

using namespace farandole;

namespace {

using bytes = std::vector<std::byte>;

bool put(int socket, const std::string& word) {
  const std::uint64_t length = word.size();
  std::string framed(reinterpret_cast<const char*>(&length), sizeof length);
  framed += word;
  for (std::size_t at = 0; at < framed.size();) {
    const ssize_t sent = ::send(socket, framed.data() + at, framed.size() - at, MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

bool take(int socket, std::string& word) {
  std::uint64_t length = 0;
  if (::recv(socket, &length, sizeof length, MSG_WAITALL) != static_cast<ssize_t>(sizeof length))
    return false;
  word.resize(length);
  return length == 0 || ::recv(socket, word.data(), length, MSG_WAITALL) == static_cast<ssize_t>(length);
}

/// What a member knows in its child process.
struct member {
  std::int32_t rank;
  std::int32_t size;
  int control;
  abort_token abort;
  std::function<void(ucx_phase, std::size_t)> probe;
  std::unique_ptr<ucx_path> path;

  limits until(std::chrono::milliseconds patience = std::chrono::seconds{60}) {
    return {abort, std::chrono::steady_clock::now() + patience, "patience (TEST_PATIENCE) = 60 s"};
  }
  /// Opens the path and meets the others; empty when all went well.
  std::string join() {
    ucx_options options;
    options.generation = 7;
    options.set = 3;
    for (std::int32_t at = 0; at < size; ++at)
      options.global_ranks.push_back(10 + at);
    options.probe = [this](ucx_phase phase, std::size_t piece) {
      if (probe)
        probe(phase, piece);
    };
    auto opened = ucx_path::open(options);
    if (!opened)
      return opened.error().text;
    path = std::move(*opened);
    std::vector<std::string> all(static_cast<std::size_t>(size));
    if (!put(control, path->address()))
      return "no parent";
    for (std::string& address : all)
      if (!take(control, address))
        return "no parent";
    return path->connect(all, rank, until()).text;
  }
};

/// A job of forked members. The body's answer, empty when content, is the child's last word.
class job {
public:
  job(std::int32_t size, const std::function<std::string(member&)>& body) {
    for (std::int32_t rank = 0; rank < size; ++rank) {
      int ends[2];
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0) {
        for (int other : sockets_)
          ::close(other);
        ::close(ends[0]);
        live(rank, size, ends[1], body);
      }
      ::close(ends[1]);
      sockets_.push_back(ends[0]);
      children_.push_back(child);
    }
    std::vector<std::string> addresses;
    for (std::int32_t rank = 0; rank < size; ++rank)
      addresses.push_back(hear(rank));
    for (std::int32_t rank = 0; rank < size; ++rank)
      for (const std::string& address : addresses)
        tell(rank, address);
  }
  ~job() {
    for (int each : sockets_)
      ::close(each);
    for (pid_t child : children_)
      ::waitpid(child, nullptr, 0);
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  std::string hear(std::int32_t rank) {
    std::string word;
    return take(sockets_[static_cast<std::size_t>(rank)], word) ? word : "(dead)";
  }
  void tell(std::int32_t rank, const std::string& word) {
    put(sockets_[static_cast<std::size_t>(rank)], word);
  }

private:
  [[noreturn]] static void live(std::int32_t rank, std::int32_t size, int control,
                                const std::function<std::string(member&)>& body) {
    member self{rank, size, control, {}, {}, {}};
    std::string answer = self.join();
    if (answer.empty())
      answer = body(self);
    self.path.reset();
    put(control, answer);
    ::_exit(0);
  }

  std::vector<int> sockets_;
  std::vector<pid_t> children_;
};

// ---- what is moved, and what must come out -------------------------------------------------------

/// The same on every member for the same arguments; small numbers, so that no reduction meets a NaN.
bytes contents(dtype type, std::size_t count, std::int32_t rank, std::size_t part) {
  bytes made(count * size_of(type));
  for (std::size_t at = 0; at < count; ++at) {
    const auto mixed =
        static_cast<std::uint32_t>((at * 2654435761U) ^ (static_cast<unsigned>(rank) * 40503U + part));
    switch (type) {
    case dtype::float32: {
      const float value = static_cast<float>(mixed % 20011) / 97.0F - 90.0F;
      std::memcpy(&made[at * 4], &value, 4);
      break;
    }
    case dtype::float64: {
      const double value = static_cast<double>(mixed % 20011) / 97.0 - 90.0;
      std::memcpy(&made[at * 8], &value, 8);
      break;
    }
    case dtype::bfloat16:
    case dtype::float16: { // finite: the exponent's top bit stays clear
      const auto value = static_cast<std::uint16_t>(mixed & 0xbfff);
      std::memcpy(&made[at * 2], &value, 2);
      break;
    }
    default:
      for (std::size_t byte = 0; byte < size_of(type); ++byte)
        made[at * size_of(type) + byte] = static_cast<std::byte>(mixed >> (8 * (byte % 4)));
    }
  }
  return made;
}

std::string differs(const std::string& what, const bytes& got, const bytes& wanted) {
  return got == wanted ? "" : what + " differs";
}

struct recipe {
  dtype type;
  reduce_op op;
  std::vector<std::size_t> counts;
  bool in_place = false;
  double prescale = 1.0;
  double postscale = 1.0;
  std::int32_t joined = -1; ///< this member brings nothing
};

std::string allreduce(member& self, std::uint64_t sequence, const recipe& how) {
  std::vector<bytes> inputs, outputs, wanted;
  for (std::size_t at = 0; at < how.counts.size(); ++at) {
    std::vector<bytes> all;
    std::vector<const std::byte*> pointers;
    for (std::int32_t rank = 0; rank < self.size; ++rank) {
      all.push_back(contents(how.type, how.counts[at], rank, at));
      if (rank == how.joined)
        fill_neutral(how.type, how.op, all.back().data(), how.counts[at]);
    }
    for (const bytes& each : all)
      pointers.push_back(each.data());
    wanted.emplace_back(all[0].size());
    if (how.counts[at] != 0)
      reduce(how.type, how.op, wanted.back().data(), pointers, how.counts[at], how.prescale, how.postscale,
             static_cast<std::size_t>(self.size));
    inputs.push_back(all[static_cast<std::size_t>(self.rank)]);
    outputs.emplace_back(all[0].size());
  }
  work bundle;
  bundle.sequence = sequence;
  bundle.dtype = how.type;
  bundle.reduce_op = how.op;
  bundle.prescale = how.prescale;
  bundle.postscale = how.postscale;
  const bool absent = self.rank == how.joined;
  for (std::size_t at = 0; at < inputs.size(); ++at)
    bundle.parts.push_back({absent ? nullptr : inputs[at].data(),
                            absent ? nullptr : (how.in_place ? inputs[at] : outputs[at]).data(),
                            inputs[at].size(),
                            {}});
  if (const outcome end = self.path->run(bundle, self.until()); end.error)
    return end.error.text;
  std::string problem;
  for (std::size_t at = 0; at < inputs.size() && !absent; ++at)
    problem += differs("allreduce of " + std::string{to_string(how.type)} + " part " + std::to_string(at),
                       how.in_place ? inputs[at] : outputs[at], wanted[at]);
  return problem;
}

std::string allgather(member& self, std::uint64_t sequence,
                      const std::vector<std::vector<std::size_t>>& lengths) {
  work bundle;
  bundle.sequence = sequence;
  bundle.operation = operation::allgather;
  bundle.dtype = dtype::uint8;
  std::vector<bytes> inputs, outputs, wanted;
  for (std::size_t at = 0; at < lengths.size(); ++at) {
    wanted.emplace_back();
    for (std::int32_t rank = 0; rank < self.size; ++rank) {
      const bytes rows = contents(dtype::uint8, lengths[at][static_cast<std::size_t>(rank)], rank, at);
      wanted.back().insert(wanted.back().end(), rows.begin(), rows.end());
      bundle.gathered.push_back(rows.size());
      if (rank == self.rank)
        inputs.push_back(rows);
    }
    outputs.emplace_back(wanted.back().size());
  }
  for (std::size_t at = 0; at < lengths.size(); ++at)
    bundle.parts.push_back({inputs[at].data(), outputs[at].data(), inputs[at].size(), {}});
  if (const outcome end = self.path->run(bundle, self.until()); end.error)
    return end.error.text;
  std::string problem;
  for (std::size_t at = 0; at < lengths.size(); ++at)
    problem += differs("allgather part " + std::to_string(at), outputs[at], wanted[at]);
  return problem;
}

work broadcast_of(bytes& input, bytes& output, std::int32_t root) {
  work bundle;
  bundle.operation = operation::broadcast;
  bundle.dtype = dtype::uint8;
  bundle.root = root;
  bundle.parts.push_back({input.data(), output.data(), input.size(), {}});
  return bundle;
}

std::string broadcast(member& self, std::uint64_t sequence, std::size_t length, std::int32_t root,
                      bool in_place) {
  bytes input = contents(dtype::uint8, length, self.rank, 0);
  bytes other(length);
  bytes& output = in_place ? input : other;
  work bundle = broadcast_of(input, output, root);
  bundle.sequence = sequence;
  // A second part: pieces straddle the two.
  bytes tail = contents(dtype::uint8, 77, self.rank, 1);
  bundle.parts.push_back({tail.data(), tail.data(), tail.size(), {}});
  if (const outcome end = self.path->run(bundle, self.until()); end.error)
    return end.error.text;
  return differs("broadcast", output, contents(dtype::uint8, length, root, 0)) +
         differs("broadcast tail", tail, contents(dtype::uint8, 77, root, 1));
}

std::string barrier(member& self, std::uint64_t sequence) {
  work bundle;
  bundle.sequence = sequence;
  bundle.operation = operation::barrier;
  return self.path->run(bundle, self.until()).error.text;
}

/// One large tensor, alone: the pieces go straight from and to the caller's memory.
work large_allreduce(bytes& buffer) {
  work bundle;
  bundle.dtype = dtype::float32;
  bundle.parts.push_back({buffer.data(), buffer.data(), buffer.size(), {}});
  return bundle;
}
constexpr std::size_t large_count = 800'000; // seven pieces

} // namespace

TEST_CASE("ucx: every tag field can be told apart") {
  const ucx_tag base{5, 9, 11, ucx_phase::scatter, 3};
  auto changed = [&](auto change) {
    ucx_tag other = base;
    change(other);
    return other.bits() != base.bits();
  };
  CHECK(changed([](ucx_tag& t) { t.generation = 6; }));
  CHECK(changed([](ucx_tag& t) { t.set = 8; }));
  CHECK(changed([](ucx_tag& t) { t.sequence = 12; }));
  CHECK(changed([](ucx_tag& t) { t.phase = ucx_phase::gather; }));
  CHECK(changed([](ucx_tag& t) { t.source = 65535; }));
  CHECK(source_of(base.bits()) == 3);
  ucx_tag far = base;
  far.source = 65535;
  CHECK(source_of(far.bits()) == 65535);
}

TEST_CASE("ucx: a range inside one part is found, one across parts is packed and unpacked") {
  bytes first = contents(dtype::uint8, 10, 0, 0), second = contents(dtype::uint8, 5, 0, 1);
  ucx_stream row;
  row.add(first.data(), first.size());
  row.add(nullptr, 4);
  row.add(second.data(), 0);
  row.add(second.data(), second.size());
  CHECK(row.bytes() == 19);
  CHECK(row.whole(2, 8) == first.data() + 2);
  CHECK(row.whole(2, 9) == nullptr);
  CHECK(row.whole(10, 4) == nullptr);
  CHECK(row.whole(14, 5) == second.data());
  bytes packed(8);
  pack(row, 8, 8, packed.data(),
       [](std::byte* target, std::size_t length) { std::memset(target, 0xee, length); });
  CHECK(packed == bytes{first[8], first[9], std::byte{0xee}, std::byte{0xee}, std::byte{0xee},
                        std::byte{0xee}, second[0], second[1]});
  bytes news(8, std::byte{1});
  unpack(news.data(), row, 8, 8);
  CHECK(first[8] == std::byte{1});
  CHECK(second[1] == std::byte{1});
  CHECK(second[2] == contents(dtype::uint8, 5, 0, 1)[2]);
}

TEST_CASE("ucx: every operation gives every member the bits of one sum in rank order") {
  const std::int32_t size = GENERATE(1, 2, 3, 4);
  job members(size, [](member& self) {
    std::uint64_t sequence = 0;
    std::string problem;
    const std::vector<std::vector<std::size_t>> shapes = {{0},
                                                          {1},
                                                          {3},
                                                          {1000},
                                                          {70'001},
                                                          {large_count},
                                                          {5, 0, 1, 90'000, 2, 300'000, 7},
                                                          std::vector<std::size_t>(1000, 256)};
    for (const auto& counts : shapes)
      for (const bool in_place : {false, true}) {
        problem += allreduce(self, sequence++, {dtype::float32, reduce_op::sum, counts, in_place});
        problem += allreduce(self, sequence++, {dtype::bfloat16, reduce_op::average, counts, in_place});
      }
    for (const dtype type : {dtype::uint8, dtype::int64, dtype::float16, dtype::float64})
      for (const reduce_op op : {reduce_op::min, reduce_op::max, reduce_op::sum})
        problem += allreduce(self, sequence++, {type, op, {3, 50'000}, true, 0.5, 2.0});
    problem += allreduce(self, sequence++,
                         {dtype::float32, reduce_op::product, {9}, false, 1.0, 1.0, self.size - 1});
    problem += allreduce(self, sequence++, {dtype::float32, reduce_op::sum, {9, 200'000}, true, 3.0, 0.1, 0});
    std::vector<std::vector<std::size_t>> lengths(3);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(self.size); ++rank) {
      lengths[0].push_back(rank * 5);
      lengths[1].push_back(rank % 2 == 0 ? 0 : 3'000'000);
      lengths[2].push_back(100'000 * (rank + 1));
    }
    problem += allgather(self, sequence++, lengths);
    problem += allgather(self, sequence++, {lengths[0]});
    problem += allgather(self, sequence++, {lengths[1]});
    problem +=
        allgather(self, sequence++, {std::vector<std::size_t>(static_cast<std::size_t>(self.size), 0)});
    for (std::int32_t root = 0; root < self.size; ++root)
      for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{4'000'001}})
        problem += broadcast(self, sequence++, length, root, root % 2 == 0);
    for (int round = 0; round < 20; ++round)
      problem += barrier(self, sequence++);
    return problem;
  });
  for (std::int32_t rank = 0; rank < size; ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("ucx: fusing tensors changes no bit of the result") {
  job members(3, [](member& self) {
    const std::vector<std::size_t> counts = {1, 33'333, 7, 250'000};
    std::vector<bytes> alone, fused;
    std::vector<work> each;
    work together;
    for (std::size_t at = 0; at < counts.size(); ++at) {
      alone.push_back(contents(dtype::float32, counts[at], self.rank, at));
      fused.push_back(alone.back());
    }
    std::uint64_t sequence = 0;
    for (std::size_t at = 0; at < counts.size(); ++at) {
      work single = large_allreduce(alone[at]);
      single.sequence = sequence++;
      if (const outcome end = self.path->run(single, self.until()); end.error)
        return end.error.text;
      together.parts.push_back({fused[at].data(), fused[at].data(), fused[at].size(), {}});
    }
    together.sequence = sequence++;
    if (const outcome end = self.path->run(together, self.until()); end.error)
      return end.error.text;
    return std::string{alone == fused ? "" : "fusion changed the result"};
  });
  for (std::int32_t rank = 0; rank < 3; ++rank)
    CHECK(members.hear(rank) == "");
}

TEST_CASE("ucx: a member killed in the middle of an operation is named by all others") {
  const ucx_phase when = GENERATE(ucx_phase::scatter, ucx_phase::gather);
  job members(4, [when](member& self) {
    self.probe = [&](ucx_phase phase, std::size_t piece) {
      if (self.rank == 2 && phase == when && piece == 3)
        ::kill(::getpid(), SIGKILL);
    };
    bytes buffer = contents(dtype::float32, large_count, self.rank, 0);
    const outcome end = self.path->run(large_allreduce(buffer), self.until());
    const outcome again = self.path->run(large_allreduce(buffer), self.until());
    return std::string{to_string(end.error.kind)} + ", then " + std::string{to_string(again.error.kind)} +
           ": " + end.error.text;
  });
  const std::string wanted = std::string{to_string(error_kind::disconnected)} + ", then " +
                             std::string{to_string(error_kind::disconnected)};
  for (const std::int32_t survivor : {0, 1, 3})
    CHECK_THAT(members.hear(survivor), Catch::StartsWith(wanted) && Catch::Contains("rank 12"));
  CHECK(members.hear(2) == "(dead)");
}

TEST_CASE("ucx: a member killed between two operations is named by the next") {
  job members(3, [](member& self) {
    if (std::string problem = barrier(self, 0); !problem.empty())
      return problem;
    if (self.rank == 0)
      ::kill(::getpid(), SIGKILL);
    std::string go;
    take(self.control, go);
    return barrier(self, 1);
  });
  CHECK(members.hear(0) == "(dead)");
  for (const std::int32_t survivor : {1, 2}) {
    members.tell(survivor, "go");
    CHECK_THAT(members.hear(survivor), Catch::StartsWith("rank 10 is lost"));
  }
}

namespace {

struct abort_case {
  const char* name;
  operation what;
  ucx_phase phase;
  std::size_t piece;     ///< at which one member stops
  std::size_t aborts_at; ///< at which the abort begins
  bool others_may_finish = false;
};

/// Runs one operation in `buffer` (and `wide`, for what an allgather brings).
outcome run_one(member& self, operation what, bytes& buffer, bytes& wide, const limits& until) {
  work bundle = large_allreduce(buffer);
  bundle.operation = what;
  if (what == operation::broadcast)
    bundle.root = 0;
  if (what == operation::barrier)
    bundle.parts.clear();
  if (what == operation::allgather) {
    wide.resize(buffer.size() * static_cast<std::size_t>(self.size));
    bundle.parts[0].output = wide.data();
    bundle.gathered.assign(static_cast<std::size_t>(self.size), buffer.size());
  }
  return self.path->run(bundle, until);
}

} // namespace

TEST_CASE("ucx: after an abort in any phase the buffers stay as they were at the return") {
  const abort_case how =
      GENERATE(abort_case{"exchange", operation::allreduce, ucx_phase::exchange, 0, 0, true},
               abort_case{"first scatter", operation::allreduce, ucx_phase::scatter, 0, 0},
               abort_case{"later scatter", operation::allreduce, ucx_phase::scatter, 4, 4},
               abort_case{"first gather", operation::allreduce, ucx_phase::gather, 0, 0},
               abort_case{"later gather", operation::allreduce, ucx_phase::gather, 4, 4},
               abort_case{"rows", operation::allgather, ucx_phase::gather, 2, 2},
               abort_case{"tree", operation::broadcast, ucx_phase::tree, 2, 1},
               abort_case{"barrier", operation::barrier, ucx_phase::barrier, 1, 1, true});
  CAPTURE(how.name);
  constexpr std::int32_t frozen = 0, aborted = 2;
  job members(3, [how](member& self) {
    // One member stops in that phase and goes on only when the aborted one has returned: what it sends then,
    // or had sent before, must not arrive anywhere.
    std::thread raiser;
    self.probe = [&](ucx_phase phase, std::size_t piece) {
      if (phase != how.phase)
        return;
      std::string go;
      if (self.rank == frozen && piece == how.piece) {
        put(self.control, "frozen");
        take(self.control, go);
      } else if (self.rank == aborted && piece == how.aborts_at) {
        put(self.control, "there");
        raiser = std::thread([&self] {
          std::string word;
          take(self.control, word);
          self.abort.raise();
        });
      }
    };
    const std::size_t count = how.phase == ucx_phase::exchange ? 100 : large_count;
    bytes buffer = contents(dtype::float32, count, self.rank, 0), wide;
    const outcome end = run_one(self, how.what, buffer, wide, self.until());
    const bytes before = buffer, wide_before = wide;
    if (raiser.joinable())
      raiser.join();
    if (self.rank == aborted) {
      put(self.control, "returned");
      std::string go;
      take(self.control, go);
    }
    if (buffer != before || wide != wide_before)
      return std::string{"touched after the return"};
    return std::string{to_string(end.error.kind)} + ": " + end.error.text;
  });
  const std::string disconnected{to_string(error_kind::disconnected)};
  CHECK(members.hear(frozen) == "frozen");
  CHECK(members.hear(aborted) == "there");
  members.tell(aborted, "abort");
  CHECK(members.hear(aborted) == "returned");
  members.tell(frozen, "go");
  for (const std::int32_t other : {frozen, 1}) {
    const std::string end = members.hear(other);
    if (!how.others_may_finish || end != "none: ") // who needs nothing more from the aborted one may be done
      CHECK_THAT(end, Catch::StartsWith(disconnected) && Catch::Contains("rank 12"));
  }
  members.tell(aborted, "look");
  CHECK_THAT(members.hear(aborted), Catch::StartsWith(disconnected + ": the operation was aborted"));
}

TEST_CASE("ucx: a deadline that passes ends the wait and cites its setting") {
  job members(2, [](member& self) {
    bytes buffer = contents(dtype::float32, large_count, self.rank, 0);
    limits until = self.until();
    std::string go;
    if (self.rank == 1) {
      take(self.control, go);
    } else {
      until.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds{30};
      until.deadline_setting = "operation timeout (TEST_TIMEOUT) = 0.03 s";
    }
    const error problem = self.path->run(large_allreduce(buffer), until).error;
    return std::string{to_string(problem.kind)} + ": " + problem.text;
  });
  const std::string end = members.hear(0);
  CHECK_THAT(end, Catch::StartsWith(std::string{to_string(error_kind::timed_out)}));
  CHECK_THAT(end, Catch::Contains("operation timeout (TEST_TIMEOUT) = 0.03 s"));
  members.tell(1, "go");
  CHECK_THAT(members.hear(1), Catch::Contains("rank 10 is lost"));
}

TEST_CASE("ucx: a member that leaves in order disturbs nobody who needs nothing more of it") {
  job members(3, [](member& self) {
    std::string go;
    if (self.rank == 2)
      self.probe = [&](ucx_phase, std::size_t) { take(self.control, go); };
    bytes buffer = contents(dtype::uint8, 1000, self.rank, 0);
    const outcome end = self.path->run(broadcast_of(buffer, buffer, 0), self.until());
    if (end.error)
      return end.error.text;
    return differs("broadcast", buffer, contents(dtype::uint8, 1000, 0, 0));
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
  members.tell(2, "go");
  CHECK(members.hear(2) == "");
}

TEST_CASE("ucx: who waits for a member that has left in order is told so") {
  job members(2, [](member& self) { return self.rank == 0 ? std::string{} : barrier(self, 0); });
  CHECK(members.hear(0) == "");
  CHECK_THAT(members.hear(1), Catch::StartsWith("rank 10 is lost"));
}

TEST_CASE("ucx: connecting to a member that is gone fails and names it") {
  job members(3, [](member& self) {
    if (std::string problem = barrier(self, 0); !problem.empty())
      return problem;
    // A second path between the same members; one dies after it has told its address.
    member second{self.rank, self.size, self.control, {}, {}, {}};
    auto opened = ucx_path::open({});
    if (!opened)
      return opened.error().text;
    put(self.control, (*opened)->address());
    std::vector<std::string> all(3);
    for (std::string& address : all)
      take(self.control, address);
    if (self.rank == 1)
      ::kill(::getpid(), SIGKILL);
    return (*opened)->connect(all, self.rank, second.until()).text;
  });
  std::vector<std::string> addresses;
  for (std::int32_t rank = 0; rank < 3; ++rank)
    addresses.push_back(members.hear(rank));
  for (const std::int32_t rank : {1, 0, 2}) {
    for (const std::string& address : addresses)
      members.tell(rank, address);
    if (rank == 1)
      CHECK(members.hear(1) == "(dead)");
  }
  for (const std::int32_t rank : {0, 2}) {
    const std::string end = members.hear(rank);
    CHECK_THAT(end, Catch::Contains("rank 1") && Catch::Contains("lost to the ucx path"));
  }
}

TEST_CASE("ucx: the process' signals, allocator and shared memory are left alone") {
  job members(2, [](member& self) {
    std::string problem = barrier(self, 0);
    for (const int number : {SIGHUP, SIGILL, SIGBUS, SIGFPE, SIGSEGV, SIGALRM}) {
      struct sigaction action {};
      ::sigaction(number, nullptr, &action);
      // A sanitizer has handlers of its own; they lie in this executable or in its runtime, not in UCX.
      Dl_info where{};
      if (action.sa_handler != SIG_DFL && ::dladdr(reinterpret_cast<void*>(action.sa_handler), &where) != 0 &&
          std::string{where.dli_fname}.find("libuc") != std::string::npos)
        problem += "signal " + std::to_string(number) + " has UCX's handler; ";
    }
    // A hook would start with a jump to elsewhere.
    void* const unmap = ::dlsym(RTLD_DEFAULT, "munmap");
    const auto* code = static_cast<const unsigned char*>(unmap);
    if ((code[0] == 0x49 && code[1] == 0xbb) || code[0] == 0xe9)
      problem += "munmap is hooked; ";
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (task.path().filename() == std::to_string(::getpid()))
        continue;
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);)
        if (line.rfind("SigBlk:", 0) == 0 && line.find("fffffffe") == std::string::npos)
          problem += "a thread takes signals (" + line + "); ";
    }
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.find("/dev/shm/ucx") != std::string::npos || line.find("/SYSV") != std::string::npos)
        problem += "shared memory: " + line;
    return problem;
  });
  CHECK(members.hear(0) == "");
  CHECK(members.hear(1) == "");
}
