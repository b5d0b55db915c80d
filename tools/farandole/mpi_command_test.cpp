#include "tools/farandole/mpi_command.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "tools/farandole/cli/shell_words.hpp"

using namespace farandole;

namespace {

using words = std::vector<std::string>;

constexpr mpi_kind all_kinds[] = {mpi_kind::open_mpi, mpi_kind::open_mpi_5, mpi_kind::spectrum,
                                  mpi_kind::mpich, mpi_kind::intel};

mpi_command made(mpi_kind kind, const mpi_request& request) {
  const auto command = make_mpi_command(kind, request);
  INFO((command ? "" : command.error().text));
  REQUIRE(command);
  return *command;
}

std::string line(mpi_kind kind, const mpi_request& request) {
  return shell_line(made(kind, request).words);
}

std::string refusal(mpi_kind kind, const mpi_request& request) {
  const auto command = make_mpi_command(kind, request);
  REQUIRE_FALSE(command);
  CHECK(command.error().kind == error_kind::invalid_argument);
  return command.error().text;
}

/// Every part of a request that all kinds accept.
mpi_request full_request() {
  mpi_request request;
  request.processes = 4;
  request.hosts = {{"a", 2}, {"spare", 0}, {"b", 2}};
  request.ssh_port = 2222;
  request.ssh_identity_file = "/keys/id";
  request.interfaces = {"eth0"};
  request.output_filename = "logs";
  request.variables = {"PATH", "HOME", "PATH", "NCCL_SOCKET_IFNAME"};
  request.mpi_args = "-x 'A=b c'";
  request.tcp_only = true;
  request.command = {"python", "train it.py", "--lr=1"};
  return request;
}

mpi_request small_request() {
  mpi_request request;
  request.command = {"true"};
  return request;
}

} // namespace

TEST_CASE("the whole command line of Open MPI 4") {
  auto request = full_request();
  request.interfaces = {"eth0", "ib0"};
  request.timestamps = true;
  CHECK(line(mpi_kind::open_mpi, request) ==
        "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 -bind-to none -map-by slot "
        "-mca pml ob1 -mca btl ^openib -mca plm_rsh_args '-p 2222 -i /keys/id' -mca btl_tcp_if_include "
        "eth0,ib0 "
        "-x NCCL_SOCKET_IFNAME=eth0,ib0 --output-filename logs --timestamp-output -x HOME -x PATH -x 'A=b c' "
        "python 'train it.py' --lr=1");
  CHECK(made(mpi_kind::open_mpi, request).environment.empty());
}

TEST_CASE("the whole command line of Open MPI 5") {
  auto request = full_request();
  request.timestamps = true;
  CHECK(line(mpi_kind::open_mpi_5, request) ==
        "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 --bind-to none --map-by slot "
        "-mca pml ob1 -mca btl ^openib --prtemca plm_ssh_args '-p 2222 -i /keys/id' -mca btl_tcp_if_include "
        "eth0 "
        "-x NCCL_SOCKET_IFNAME=eth0 --output-filename logs --timestamp-output -x HOME -x PATH -x 'A=b c' "
        "python 'train it.py' --lr=1");
}

TEST_CASE("the whole command line of Spectrum MPI") {
  CHECK(
      line(mpi_kind::spectrum, full_request()) ==
      "mpirun --allow-run-as-root --tag-output -np 4 -H a:2,b:2 -bind-to socket -map-by socket -rank-by core "
      "-tcp -mca plm_rsh_args '-p 2222 -i /keys/id' -mca btl_tcp_if_include eth0 "
      "-x NCCL_SOCKET_IFNAME=eth0 --output-filename logs -x HOME -x PATH -x 'A=b c' python 'train it.py' "
      "--lr=1");
}

TEST_CASE("the whole command line of MPICH, which takes ssh's options from the environment") {
  const auto command = made(mpi_kind::mpich, full_request());
  CHECK(shell_line(command.words) ==
        "mpirun -l -np 4 -ppn 2 -hosts a,b -bind-to none -map-by slot -bootstrap=ssh -iface eth0 "
        "-genv NCCL_SOCKET_IFNAME eth0 -outfile-pattern logs -x 'A=b c' python 'train it.py' --lr=1");
  CHECK(command.environment == words{"HYDRA_LAUNCHER_EXTRA_ARGS=-p 2222 -i /keys/id"});
}

TEST_CASE("the whole command line of Intel MPI") {
  CHECK(line(mpi_kind::intel, full_request()) ==
        "mpirun -l -np 4 -ppn 2 -hosts a,b -bootstrap=ssh -bootstrap-exec-args '-p 2222 -i /keys/id' -iface "
        "eth0 "
        "-genv NCCL_SOCKET_IFNAME eth0 -outfile-pattern logs -x 'A=b c' python 'train it.py' --lr=1");
  CHECK(made(mpi_kind::intel, full_request()).environment.empty());
}

TEST_CASE("an option that was not given adds no word") {
  CHECK(line(mpi_kind::open_mpi, small_request()) ==
        "mpirun --allow-run-as-root --tag-output -np 1 -bind-to none "
        "-map-by slot -mca pml ob1 -mca btl ^openib true");
  CHECK(line(mpi_kind::spectrum, small_request()) ==
        "mpirun --allow-run-as-root --tag-output -np 1 -bind-to socket "
        "-map-by socket -rank-by core true");
  CHECK(line(mpi_kind::mpich, small_request()) == "mpirun -l -np 1 -bind-to none -map-by slot true");
  CHECK(line(mpi_kind::intel, small_request()) == "mpirun -l -np 1 true");
}

TEST_CASE("ssh gets a port or an identity file alone") {
  auto request = small_request();
  request.ssh_port = 22;
  CHECK_THAT(line(mpi_kind::open_mpi, request), Catch::Contains("-mca plm_rsh_args '-p 22' true"));
  request.ssh_port = 0;
  request.ssh_identity_file = "id";
  CHECK_THAT(line(mpi_kind::intel, request), Catch::Contains("-bootstrap-exec-args '-i id' true"));
  request.ssh_identity_file = "my keys/id";
  for (const auto kind : all_kinds)
    CHECK_THAT(refusal(kind, request), Catch::Contains("'my keys/id' (--ssh-identity-file)"));
}

TEST_CASE("the remote shell of the job starts mpirun's daemons") {
  auto request = small_request();
  request.remote_shell = {"shell", "-F", "config"};
  CHECK(made(mpi_kind::open_mpi, request).environment == words{"OMPI_MCA_plm_rsh_agent=shell -F config"});
  CHECK(made(mpi_kind::spectrum, request).environment == words{"OMPI_MCA_plm_rsh_agent=shell -F config"});
  CHECK(made(mpi_kind::open_mpi_5, request).environment == words{"PRTE_MCA_plm_ssh_agent=shell -F config"});
  request.ssh_port = 22;
  CHECK(made(mpi_kind::mpich, request).environment ==
        words{"HYDRA_LAUNCHER_EXEC=shell", "HYDRA_LAUNCHER_EXTRA_ARGS=-F config -p 22"});
  CHECK_THAT(line(mpi_kind::mpich, request), Catch::Contains("-bootstrap=ssh true"));
  CHECK(made(mpi_kind::intel, request).environment == words{"I_MPI_HYDRA_BOOTSTRAP_EXEC=shell"});
  CHECK_THAT(line(mpi_kind::intel, request),
             Catch::Contains("-bootstrap=ssh -bootstrap-exec-args '-F config -p 22' true"));
  request.ssh_port = 0;
  request.remote_shell = {"shell"};
  CHECK(made(mpi_kind::mpich, request).environment == words{"HYDRA_LAUNCHER_EXEC=shell"});
  CHECK_THAT(line(mpi_kind::intel, request), Catch::EndsWith("-bootstrap=ssh true"));
  request.remote_shell = {"my shell"};
  for (const auto kind : all_kinds)
    CHECK_THAT(refusal(kind, request), Catch::Contains("'my shell' (FARANDOLE_RSH)"));
}

TEST_CASE("--binding-args replaces the binding, and MPICH and Intel MPI refuse it") {
  auto request = small_request();
  request.binding_args = "--bind-to 'hwthread' ";
  CHECK(line(mpi_kind::spectrum, request) ==
        "mpirun --allow-run-as-root --tag-output -np 1 --bind-to hwthread true");
  for (const auto kind : {mpi_kind::open_mpi, mpi_kind::open_mpi_5})
    CHECK_THAT(line(kind, request), Catch::Contains("-np 1 --bind-to hwthread -mca pml"));
  CHECK_THAT(refusal(mpi_kind::mpich, request),
             Catch::Contains("this is MPICH; pass its options with --mpi-args"));
  CHECK_THAT(refusal(mpi_kind::intel, request), Catch::Contains("this is Intel MPI;"));
}

TEST_CASE("options that cannot be split into words are refused with their name and value") {
  auto request = small_request();
  request.mpi_args = "-x 'A";
  for (const auto kind : all_kinds)
    CHECK_THAT(refusal(kind, request),
               Catch::StartsWith("--mpi-args='-x 'A' cannot be split into words: the quote '"));
  request.mpi_args.clear();
  request.binding_args = "\"";
  CHECK_THAT(refusal(mpi_kind::open_mpi, request), Catch::StartsWith("--binding-args='\"' cannot be split"));
}

TEST_CASE("MPICH and Intel MPI refuse unequal slots with both numbers") {
  auto request = small_request();
  request.hosts = {{"a", 4}, {"b", 4}, {"c", 2}};
  for (const auto kind : {mpi_kind::mpich, mpi_kind::intel})
    CHECK_THAT(refusal(kind, request),
               Catch::Contains("'a' has 4 slots and 'c' has 2; give all hosts the same number"));
  CHECK_THAT(line(mpi_kind::open_mpi, request), Catch::Contains("-H a:4,b:4,c:2 "));
}

TEST_CASE("MPICH and Intel MPI refuse several interfaces and timestamps") {
  auto request = small_request();
  request.interfaces = {"eth0", "ib0"};
  for (const auto kind : {mpi_kind::mpich, mpi_kind::intel})
    CHECK_THAT(refusal(kind, request), Catch::Contains("but 2 are named (--network-interfaces eth0,ib0)"));
  request.interfaces.clear();
  request.timestamps = true;
  for (const auto kind : {mpi_kind::mpich, mpi_kind::intel})
    CHECK_THAT(refusal(kind, request), Catch::Contains("leave out --prefix-output-with-timestamp"));
}

TEST_CASE("a network names interfaces for Open MPI, not for NCCL, and MPICH and Intel MPI refuse it") {
  auto request = small_request();
  request.interfaces = {"eth0", "10.0.0.0/8"};
  request.variables = {"NCCL_SOCKET_IFNAME"};
  for (const auto kind : {mpi_kind::open_mpi, mpi_kind::open_mpi_5, mpi_kind::spectrum})
    CHECK_THAT(line(kind, request),
               Catch::EndsWith("-mca btl_tcp_if_include eth0,10.0.0.0/8 -x NCCL_SOCKET_IFNAME true"));
  request.interfaces = {"10.0.0.0/8"};
  for (const auto kind : {mpi_kind::mpich, mpi_kind::intel})
    CHECK_THAT(refusal(kind, request),
               Catch::Contains("'10.0.0.0/8' is a network (--network-interfaces); name the interface"));
}

TEST_CASE("an IPv6 address is refused, because no mpirun can start a host by it") {
  auto request = small_request();
  request.hosts = {{"a", 1}, {"fe80::1", 1}};
  for (const auto kind : all_kinds)
    CHECK_THAT(refusal(kind, request), Catch::Contains("no IPv6 address such as 'fe80::1'"));
}

TEST_CASE(
    "flags of a caller replace the binding and the flags of the implementation, which a command names") {
  auto request = small_request();
  request.hosts = {{"a", 1}, {"b", 1}};
  request.tcp_only = true;
  const auto own = made(mpi_kind::spectrum, request);
  CHECK(own.binding == words{"-bind-to", "socket", "-map-by", "socket", "-rank-by", "core"});
  CHECK(own.flags == words{"-tcp"});
  request.traits.flags = "--bound '--own=A B'";
  request.traits.large_cluster = 2;
  for (const auto kind : {mpi_kind::open_mpi, mpi_kind::spectrum}) {
    CHECK_THAT(line(kind, request),
               Catch::Contains(" a:1,b:1 --bound '--own=A B' -mca plm_rsh_no_tree_spawn true "));
    CHECK_THAT(line(kind, request), !Catch::Contains("-tcp") && !Catch::Contains("-bind-to"));
  }
  request.traits.flags = " ";
  CHECK(line(mpi_kind::mpich, request) == "mpirun -l -np 1 -ppn 1 -hosts a,b true");
}

TEST_CASE("from 64 hosts on, Open MPI starts all of them at once") {
  auto request = small_request();
  for (int host = 0; host < 63; ++host)
    request.hosts.push_back({"n" + std::to_string(host), 1});
  request.hosts.push_back({"spare", 0});
  for (const auto kind : all_kinds)
    CHECK(line(kind, request).find("tree_spawn") == std::string::npos);
  request.hosts.push_back({"n63", 1});
  CHECK_THAT(line(mpi_kind::open_mpi, request),
             Catch::Contains("^openib -mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 64 true"));
  CHECK_THAT(line(mpi_kind::spectrum, request),
             Catch::Contains("core -mca plm_rsh_no_tree_spawn true -mca plm_rsh_num_concurrent 64 true"));
  CHECK_THAT(
      line(mpi_kind::open_mpi_5, request),
      Catch::Contains("--prtemca plm_ssh_no_tree_spawn true --prtemca plm_ssh_num_concurrent 64 true"));
  for (const auto kind : {mpi_kind::mpich, mpi_kind::intel})
    CHECK(line(kind, request).find("tree_spawn") == std::string::npos);
}

TEST_CASE("NCCL's interfaces are passed as a variable unless interfaces are given") {
  auto request = small_request();
  request.variables = {"NCCL_SOCKET_IFNAME"};
  CHECK_THAT(line(mpi_kind::open_mpi, request), Catch::Contains("-x NCCL_SOCKET_IFNAME true"));
  request.interfaces = {"lo"};
  CHECK_THAT(line(mpi_kind::open_mpi, request), Catch::Contains("-x NCCL_SOCKET_IFNAME=lo true"));
}

TEST_CASE("the kind of MPI is known by the version that mpirun prints") {
  const std::pair<const char*, mpi_kind> versions[] = {
      {"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
       mpi_kind::open_mpi},
      {"mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/community/help/\n",
       mpi_kind::open_mpi_5},
      {"mpirun (Open MPI) 10.0.0rc1\n", mpi_kind::open_mpi_5},
      {"mpirun (Open MPI)\n", mpi_kind::open_mpi},
      {"OpenRTE 1.6.5\n", mpi_kind::open_mpi},
      {"mpirun (IBM Spectrum MPI) 10.04.00.03rtm2\n", mpi_kind::spectrum},
      {"HYDRA build details:\n    Version:                                 5.0.2\n", mpi_kind::mpich},
      {"MPICH Version: 3.4\n", mpi_kind::mpich},
      {"Intel(R) MPI Library for Linux* OS, Version 2021.19.0 Build 20260929 (id: 1821d9b)\n",
       mpi_kind::intel},
      {"Intel(R) MPI Library for Linux* OS\nHYDRA build details:\n", mpi_kind::intel},
  };
  for (const auto& [text, kind] : versions) {
    INFO(text);
    const auto found = detect_mpi(text);
    REQUIRE(found);
    CHECK(*found == kind);
  }
}

TEST_CASE("an unknown mpirun is refused with what it printed and what to do instead") {
  for (const auto* text : {"", "some other program 1.0\nmore", "error while\x1b loading"}) {
    const auto found = detect_mpi(text);
    REQUIRE_FALSE(found);
    CHECK(found.error().kind == error_kind::invalid_argument);
    for (const auto* part : {"Open MPI", "IBM Spectrum MPI", "MPICH", "Intel(R) MPI", "leave out --mpi"})
      CHECK_THAT(found.error().text, Catch::Contains(part));
  }
  CHECK_THAT(detect_mpi("some other program 1.0\nmore").error().text,
             Catch::Contains("'some other program 1.0'"));
  CHECK(detect_mpi("\x1b").error().text.find('\x1b') == std::string::npos);
  CHECK(detect_mpi(std::string(10000, 'x')).error().text.size() < 500);
}

TEST_CASE("missing search paths come from the launcher") {
  const std::map<std::string, std::string, std::less<>> own = {{"PATH", "/bin"}, {"PYTHONPATH", "/lib"}};
  const auto lookup = [&own](std::string_view name) {
    const auto entry = own.find(name);
    return entry == own.end() ? std::nullopt : std::optional(entry->second);
  };
  CHECK(with_search_paths({"A=b"}, lookup) == words{"A=b", "PATH=/bin", "PYTHONPATH=/lib"});
  CHECK(with_search_paths({"PYTHONPATH=", "PATHS=x"}, lookup) ==
        words{"PYTHONPATH=", "PATHS=x", "PATH=/bin"});
  CHECK(with_search_paths({}, [](std::string_view) { return std::nullopt; }).empty());
}
