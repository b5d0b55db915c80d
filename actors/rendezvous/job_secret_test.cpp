#include "actors/rendezvous/job_secret.hpp"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "messages/settings/environment_testing.hpp"
#include "messages/values/descriptor.hpp"
#include "tests/temporary_folder.hpp"

using namespace farandole;
using namespace farandole::testing;
using Catch::Contains;

namespace {

const std::string good = "6f1c0a9b52d87e43f0b1c2a39d84e576";

std::string refusal(const expected<std::string>& secret) {
  return secret ? "none" : secret.error().text;
}

std::string write(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path) << text;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
  return path;
}

} // namespace

TEST_CASE("secrets from make_secret and openssl, in base64 and as raw bytes, are accepted", "[secret]") {
  for (int i = 0; i < 1000; ++i) {
    const auto made = make_secret();
    REQUIRE(made);
    REQUIRE_FALSE(check_secret(*made, "here"));
    REQUIRE_FALSE(check_secret(made->substr(0, 32), "here")); // openssl rand -hex 16
  }
  CHECK_FALSE(check_secret("Wm9yRGhvbmRhbmFkZWxoYQ", "here")); // 16 bytes in base64
  CHECK_FALSE(
      check_secret("\x93\x01\xfe\x27\x4c\xd8\xa0\x66\x1f\xb9\x7a\x0c\xe5\x33\x88\x52", "here")); // raw
}

TEST_CASE("a secret that cannot hold 16 random bytes is refused, and the error says how to make one",
          "[secret]") {
  for (const std::string guessable :
       {"", "secret", "another secret", "0123456789012345", "6f1c0a9b52d87e43f0b1c2a39d84e57",
        "12345678901234567890123456789012345678", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "abcabcabcabcabcabcabcabcabcabcabcabcabcabc", "correct horse correct horse correct horse",
        "0123456789abcdef0123456789abcdef", "abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba"}) {
    const auto problem = check_secret(guessable, "FARANDOLE_SECRET_FILE=x");
    INFO(guessable);
    CHECK(problem.kind == error_kind::invalid_argument);
    CHECK_THAT(problem.text, Contains("FARANDOLE_SECRET_FILE=x") && Contains("openssl rand -hex 16"));
    if (guessable.size() > 6)
      CHECK_THAT(problem.text, !Contains(guessable));
  }
}

TEST_CASE("a group may read a secret file of root with mode 0440, as Kubernetes mounts it for other users",
          "[secret]") {
  if (::geteuid() != 0)
    return; // only root can make a file of root
  const temporary_folder directory;
  const auto file = directory.file("secret");
  constexpr uid_t nobody = 65534;
  REQUIRE(::chmod(directory.path().c_str(), 0755) == 0);
  write(file, good, 0440);
  for (const gid_t group : {gid_t{0}, gid_t{nobody}}) { // a process of root needs no group
    REQUIRE(::chown(file.c_str(), 0, group) == 0);
    CHECK_THAT(refusal(read_secret_file(file, "S")), Contains("can be read or written by other"));
  }
  const auto as_nobody = [&](mode_t mode) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    REQUIRE((::setegid(nobody) == 0 && ::seteuid(nobody) == 0));
    const auto secret = read_secret_file(file, "S");
    REQUIRE((::seteuid(0) == 0 && ::setegid(0) == 0));
    return secret ? *secret : secret.error().text;
  };
  CHECK(as_nobody(0440) == good);
  for (const mode_t mode : {0640, 0460, 0444, 0442, 0450, 0540})
    CHECK_THAT(as_nobody(mode), Contains("can be read or written by other"));
  REQUIRE(::chown(file.c_str(), nobody, nobody) == 0);
  CHECK_THAT(as_nobody(0440), Contains("can be read or written by other"));
}

TEST_CASE("a secret file must be a plain file that only its user can read or write", "[secret]") {
  const temporary_folder directory;
  const auto file = directory.file("secret");
  CHECK(*read_secret_file(write(file, good + "\n"), "S") == good);
  for (const mode_t mode : {0640, 0604, 0620, 0644, 0666})
    CHECK_THAT(refusal(read_secret_file(write(file, good, mode), "S")),
               Contains("S can be read or written by other"));
  CHECK_THAT(refusal(read_secret_file(write(file, "guess"), "S")),
             Contains("the secret of S can be guessed"));
  CHECK_THAT(refusal(read_secret_file(write(file, " \n"), "S")), Contains("S cannot be read or is empty"));
  CHECK_THAT(refusal(read_secret_file(directory.file("none"), "S")),
             Contains("S cannot be read or is empty"));
  CHECK_THAT(refusal(read_secret_file(directory.path(), "S")), Contains("S is no plain file"));
  const auto pipe = directory.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0); // must not wait for a writer
  CHECK_THAT(refusal(read_secret_file(pipe, "S")), Contains("S is no plain file"));
  const auto link = directory.file("link"); // as in a mounted Kubernetes secret
  std::filesystem::create_symlink(write(file, good), link);
  CHECK(*read_secret_file(link, "S") == good);
}

TEST_CASE("the inherited descriptor of a secret is closed on exec", "[secret]") {
  const descriptor memory{::memfd_create("secret", 0)};
  REQUIRE(::write(memory.get(), good.data(), good.size()) == static_cast<ssize_t>(good.size()));
  const auto values = settings_of({{"FARANDOLE_SECRET_FD", std::to_string(memory.get())}});
  CHECK(::fcntl(memory.get(), F_GETFD) == 0);
  CHECK(*job_secret(values) == good);
  CHECK(::fcntl(memory.get(), F_GETFD) == FD_CLOEXEC);
  CHECK(*job_secret(values) == good);
}

namespace {

/// The secret by these variables, or the error's text.
std::string secret_by(variables given) {
  const auto secret = job_secret(settings_of(std::move(given)));
  return secret ? *secret : secret.error().text;
}

} // namespace

TEST_CASE("a readable descriptor takes precedence over a file, and a file over the variable", "[secret]") {
  const temporary_folder place;
  const std::string of_descriptor = "7e1c0a9b52d87e43f0b1c2a39d84e570";
  const std::string of_variable = "8d1c0a9b52d87e43f0b1c2a39d84e571";
  const auto file = write(place.file("secret"), good);
  const descriptor memory{::memfd_create("secret", 0)};
  REQUIRE(::write(memory.get(), of_descriptor.data(), of_descriptor.size()) ==
          static_cast<ssize_t>(of_descriptor.size()));
  const auto number = std::to_string(memory.get());
  const descriptor empty{::memfd_create("secret", 0)};
  const auto unreadable = std::to_string(empty.get());
  CHECK(secret_by({{"FARANDOLE_SECRET_FD", number},
                   {"FARANDOLE_SECRET_FILE", file},
                   {"FARANDOLE_SECRET", of_variable}}) == of_descriptor);
  CHECK(secret_by({{"FARANDOLE_SECRET_FILE", file}, {"FARANDOLE_SECRET", of_variable}}) == good);
  CHECK(secret_by({{"FARANDOLE_SECRET_FD", unreadable}, {"FARANDOLE_SECRET", of_variable}}) == of_variable);
  CHECK(secret_by({{"FARANDOLE_SECRET", of_variable + "\n"}}) == of_variable);
  CHECK(secret_by({{"FARANDOLE_SECRET", ""}}).empty());
  CHECK_THAT(secret_by({{"FARANDOLE_SECRET_FD", unreadable}}), Contains("cannot be read"));
}

TEST_CASE("a secret in the variable that can be guessed is refused without showing it", "[secret]") {
  const auto text = secret_by({{"FARANDOLE_SECRET", "correct horse"}});
  CHECK_THAT(text, Contains("the secret of FARANDOLE_SECRET can be guessed"));
  CHECK_THAT(text, !Contains("horse"));
}

TEST_CASE("reading the job's secret removes the variable, and later reads find the value", "[secret]") {
  REQUIRE(::setenv("FARANDOLE_SECRET", good.c_str(), 1) == 0);
  const auto read = [] {
    const auto values = settings::load({process_environment(), {}, {}});
    REQUIRE(values);
    return *job_secret(*values);
  };
  CHECK(read() == good);
  CHECK(::getenv("FARANDOLE_SECRET") == nullptr);
  CHECK(read() == good);
}
