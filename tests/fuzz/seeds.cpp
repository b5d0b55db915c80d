// Writes the seeds of a fuzz target into a directory: fuzz_seeds TARGET DIRECTORY.
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "collectives/transport/tcp/channel_handshake.hpp"
#include "collectives/transport/tcp/chunk_header.hpp"
#include "collectives/transport/tcp/tcp_address.hpp"
#include "elastic/journal_format.hpp"
#include "tests/fuzz/samples.hpp"

namespace {

using namespace farandole;

/// A journal of three records, and the separate content of two of them.
std::vector<std::vector<std::byte>> journal_samples() {
  job_image job;
  job.elastic = job.running = true;
  job.epoch = job.generation = 3;
  job.slots_by_rank = {0};
  job.slot_images = {{0, true, true, false, false, 0, {}, "host", "alpha", "10.0.0.1:99", 77},
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

/// The first message of a caller, two chunks of which the first is complete, and an address.
std::vector<std::vector<std::byte>> tcp_samples() {
  std::vector<std::byte> hello{std::byte{0}}, chunks{std::byte{1}}, address{std::byte{2}};
  const auto credentials = std::make_shared<const tls_credentials>("a secret", data_purpose);
  const auto caller =
      channel_handshake::call(credentials, channel_group{7, 3, 0, 4, 2}, chunk_suite::aes_128_gcm, 1);
  static_cast<void>(caller->feed({}, hello));
  for (const std::size_t length : {4, 3000}) {
    const auto header = chunk_header::of(message_phase::gather, 1, length).encode();
    chunks.insert(chunks.end(), header.begin(), header.end());
    chunks.push_back(static_cast<std::byte>(length >> 8));
    chunks.push_back(static_cast<std::byte>(length));
    chunks.insert(chunks.end(), length, std::byte{7});
  }
  for (const char letter : tcp_address{"fd00::1", 4711}.text())
    address.push_back(static_cast<std::byte>(letter));
  return {hello, chunks, address};
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
  if (target == "fuzz_tcp") {
    for (const auto& bytes : tcp_samples())
      if (!write_seed(seed + std::to_string(number++), {}, bytes))
        return 1;
    return 0;
  }
  // The seeds of the other targets are in the repository.
  if (target != "fuzz_envelope" && target != "fuzz_frames")
    return 0;
  // A frame is the length of a message in words, zero bytes and the message; fuzz_frames takes one more byte
  // in front.
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
