#include "cuda/nccl/nccl_facts.hpp"

#include <catch2/catch.hpp>

#include <cstdlib>

using namespace farandole;
using Catch::Contains;

extern const char stand_in_nccl_library[]; // CMake defines it

TEST_CASE("codes of NCCL's versions are shown as versions") {
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(20905) == "2.9.5");
  CHECK(nccl_version_text(2804) == "2.8.4");
}

TEST_CASE("the first NCCL that can be loaded is used; every candidate before it may be missing") {
  const auto nothing = find_nccl({"/no/such/folder/libnccl.so.2", "libm.so.6"});
  REQUIRE_FALSE(nothing);
  CHECK_THAT(nothing.error().text, Contains("there is no NCCL (/no/such/folder/libnccl.so.2: ") &&
                                       Contains("libm.so.6: it does not report a version"));

  const std::string stand_in = stand_in_nccl_library;
  ::setenv("FARANDOLE_FAKE_NCCL", "0", 1);
  const auto broken = find_nccl({stand_in});
  ::unsetenv("FARANDOLE_FAKE_NCCL");
  REQUIRE_FALSE(broken);
  CHECK_THAT(broken.error().text, Contains(stand_in + ": it does not report a version"));

  ::setenv("FARANDOLE_FAKE_NCCL", "21705", 1);
  const auto old = find_nccl({stand_in});
  ::unsetenv("FARANDOLE_FAKE_NCCL");
  REQUIRE_FALSE(old);
  CHECK_THAT(old.error().text,
             Contains("NCCL 2.17.5 (" + stand_in + ") is too old: Farandole needs NCCL 2.18.1"));

  // The folder that the user names is asked alone, if it has a file of that name.
  const auto folder = stand_in.substr(0, stand_in.rfind('/'));
  ::setenv("HOROVOD_NCCL_LIB", folder.c_str(), 1);
  const auto chosen = find_nccl({"libm.so.6"});
  ::setenv("FARANDOLE_FAKE_NCCL", "0", 1);
  const auto chosen_alone = find_nccl({"libm.so.6"});
  ::unsetenv("FARANDOLE_FAKE_NCCL");
  ::setenv("HOROVOD_NCCL_LIB", "/no/such/folder", 1);
  REQUIRE(chosen);
  CHECK(chosen->path == stand_in);
  REQUIRE_FALSE(chosen_alone);
  CHECK_THAT(chosen_alone.error().text, !Contains("libm"));

  const auto found = find_nccl({"/no/such/folder/libnccl.so.2", stand_in});
  ::unsetenv("HOROVOD_NCCL_LIB");
  REQUIRE(found);
  CHECK(found->path == stand_in);
  CHECK(found->version == 22809);
}
