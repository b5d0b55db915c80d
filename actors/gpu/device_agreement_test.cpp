#include "actors/gpu/device_agreement.hpp"

#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

using namespace farandole;

namespace {

using kind = device_agreement::decision::kind;

gpu_uuid gpu(char number) {
  gpu_uuid uuid{};
  uuid.fill(number);
  return uuid;
}

communicator_id id_of(unsigned char number) {
  communicator_id id;
  id.fill(std::byte{number});
  return id;
}

device_statement able(char gpu_number, std::int32_t version = 22809, bool shares_gpu = false) {
  auto statement = device_statement::able(version, gpu(gpu_number), shares_gpu);
  statement.id = id_of(static_cast<unsigned char>(gpu_number));
  return statement;
}

std::vector<device_member> members_on(const std::vector<std::string>& hosts) {
  std::vector<device_member> members;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    members.push_back({"rank " + std::to_string(rank) + " on " + hosts[rank], hosts[rank]});
  return members;
}

/// The answer on the last member, after all have stated.
device_agreement::decision answer_to(const std::vector<device_statement>& statements,
                                     const std::vector<std::string>& hosts = {"a", "a", "a"}) {
  device_agreement agreement(statements.back(), statements.size());
  const auto question = agreement.question();
  const auto& part = question.parts.at(0);
  CHECK(std::memcmp(part.input, &statements.back(), sizeof(device_statement)) == 0);
  CHECK(question.gathered == std::vector<std::size_t>(statements.size(), sizeof(device_statement)));
  std::memcpy(part.output, statements.data(), statements.size() * sizeof(device_statement));
  return agreement.answer(members_on(hosts));
}

} // namespace

TEST_CASE("members that all can use NCCL connect by the first one's id") {
  const auto answer = answer_to({able(1), able(2), able(3)});
  CHECK(answer.decided == kind::agreed);
  CHECK(answer.id == id_of(1));
}

TEST_CASE("one member that cannot use NCCL keeps all from it, and all learn its reason") {
  const auto answer =
      answer_to({able(1), device_statement::absent(), device_statement::unable("there is no NCCL")});
  CHECK(answer.decided == kind::never);
  CHECK(answer.reason == "rank 2 on a: there is no NCCL");
  const auto late = device_statement::unable("time has passed", device_statement::kind::late);
  CHECK(answer_to({late, able(2), device_statement::unable("no memory")}).reason == "rank 2 on a: no memory");
  CHECK(answer_to({able(1), late, able(3)}).reason == "rank 1 on a: time has passed");
  const auto cut = answer_to({able(1), able(2), device_statement::unable(std::string(1000, 'x'))});
  CHECK(cut.reason == "rank 2 on a: " + std::string(255, 'x'));
}

TEST_CASE("a member that has joined without a device puts the question off") {
  const auto answer = answer_to({able(1), device_statement::absent(), able(3)});
  CHECK(answer.decided == kind::later);
  CHECK(answer.reason == "rank 1 on a has joined, and had no tensor on this GPU before");
}

TEST_CASE("members need the same version of NCCL") {
  const auto answer = answer_to({able(1), able(2, 22703), able(3)});
  CHECK(answer.decided == kind::never);
  CHECK(answer.reason ==
        "rank 0 on a has NCCL 2.28.9, and rank 1 on a has NCCL 2.27.3; install the same version on "
        "all hosts");
}

TEST_CASE("members of one host need different GPUs, unless this NCCL shares them") {
  const auto answer = answer_to({able(1), able(2), able(2)});
  CHECK(answer.decided == kind::never);
  CHECK_THAT(answer.reason, Catch::StartsWith("rank 1 on a and rank 2 on a use the same GPU"));
  const auto sharing = able(2, 23000, true);
  CHECK(answer_to({able(1, 23000, true), sharing, sharing}).decided == kind::agreed);
  CHECK(answer_to({able(1, 23000), sharing, sharing}).decided == kind::never); // all members have to allow it
  // Hosts of one machine, as in tests: NCCL is told that they differ (NCCL_HOSTID).
  CHECK(answer_to({able(1), able(2), able(2)}, {"a", "a", "b"}).decided == kind::agreed);
}
