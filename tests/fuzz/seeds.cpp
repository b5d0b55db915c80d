// Writes the seeds of a fuzz target into a directory: fuzz_seeds TARGET DIRECTORY.
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "elastic/journal_format.hpp"
#include "tests/fuzz/samples.hpp"

namespace {

using namespace farandole;

/// A journal of three records, and what is in two of them alone.
std::vector<std::vector<std::byte>> journal_samples() {
  job_image job;
  job.elastic = job.running = true;
  job.epoch = job.generation = 3;
  job.slots_by_rank = {0};
  job.seats = {{0, true, true, false, false, 0, {}, "host", "alpha", "10.0.0.1:99", 77},
               {1, false, false, true, true, -1, "exited with code 3", {}, {}, {}, 0}};
  auto file = journal_header();
  journal_writer writer;
  for (auto type : {journal_record::snapshot, journal_record::change}) {
    const auto entry = writer.entry(type, job);
    file.insert(file.end(), entry.begin(), entry.end());
  }
  const std::vector<failed_host> failed{{"alpha", 2, wall_time{std::chrono::seconds{1'800'000'000}}, false},
                                        {"beta", 1, {}, true}};
  const auto entry = writer.entry(failed);
  file.insert(file.end(), entry.begin(), entry.end());
  return {file, encode(job), encode(failed)};
}

bool write_seed(const std::string& path, const std::string& before, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file << before;
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (file.flush())
    return true;
  std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return false;
}

} // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fputs("usage: fuzz_seeds TARGET DIRECTORY\n", stderr);
    return 2;
  }
  const std::string target = arguments[1], seed = std::string{arguments[2]} + "/seed-";
  int number = 0;
  if (target == "fuzz_journal") {
    for (const auto& bytes : journal_samples())
      if (!write_seed(seed + std::to_string(number++), {}, bytes))
        return 1;
    return 0;
  }
  // A frame is a message behind its length in words and a zero; fuzz_frames takes one byte more in front.
  for (const auto& message : samples()) {
    const auto path = seed + std::to_string(number++);
    const auto words = message.bytes().size() / 8;
    std::string before;
    if (target == "fuzz_frames")
      before = {static_cast<char>(40 * number), static_cast<char>(words), static_cast<char>(words >> 8)};
    if (!before.empty())
      before.append(6, '\0');
    if (!write_seed(path, before, message.bytes()))
      return 1;
  }
}
