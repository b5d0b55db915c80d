#include "actors/process_set/gpu_options.hpp"

#include <catch2/catch.hpp>

#include <initializer_list>
#include <string>
#include <utility>

using namespace farandole;

namespace {

using given = std::pair<setting, std::string>;

settings with(std::initializer_list<given> values) {
  auto all = settings::built_in();
  for (const auto& [id, text] : values)
    REQUIRE_FALSE(all.assign(id, text, setting_source::environment));
  return all;
}

gpu_choice choice(const settings& values, operation id) {
  return gpu_choices(values)[static_cast<std::size_t>(id)];
}

} // namespace

TEST_CASE("tensors in GPU memory move by NCCL where it can, unless a setting says otherwise") {
  CHECK(choice(with({}), operation::allreduce) == gpu_choice::automatic);
  CHECK(choice(with({{setting::gpu_path, "nccl"}}), operation::broadcast) == gpu_choice::nccl);
  CHECK(choice(with({{setting::gpu_path, "staged"}}), operation::broadcast) == gpu_choice::staged);
}

TEST_CASE("Horovod's variables choose for all operations or for one, and Farandole's own overrides them") {
  const auto all = with({{setting::gpu_operations, "mpi"}});
  CHECK(choice(all, operation::allreduce) == gpu_choice::staged);
  CHECK(choice(all, operation::alltoall) == gpu_choice::staged);
  const auto one = with({{setting::gpu_allreduce, "mpi"}});
  CHECK(choice(one, operation::allreduce) == gpu_choice::staged);
  CHECK(choice(one, operation::broadcast) == gpu_choice::automatic);
  const auto all_but_one = with({{setting::gpu_operations, "mpi"}, {setting::gpu_broadcast, "nccl"}});
  CHECK(choice(all_but_one, operation::allreduce) == gpu_choice::staged);
  CHECK(choice(all_but_one, operation::broadcast) == gpu_choice::automatic);
  const auto own = with({{setting::gpu_path, "nccl"}, {setting::gpu_allreduce, "mpi"}});
  CHECK(choice(own, operation::allreduce) == gpu_choice::nccl);
}
