// Settings about how members find each other.
#include "messages/settings/setting_rows.hpp"
#include "messages/values/port_range.hpp"

namespace farandole {

namespace {

using enum setting_type;

constexpr setting_row rows[] = {
    {.id = setting::rank,
     .name = "rank",
     .type = integer,
     .built_in = "0",
     .limit = 65535,
     .environment = "HOROVOD_RANK",
     .doc = "Rank of this process in the job. Set by the launcher."},
    {.id = setting::size,
     .name = "size",
     .type = integer,
     .built_in = "1",
     .minimum = 1,
     .limit = 65536,
     .environment = "HOROVOD_SIZE",
     .doc = "Number of processes in the job. Set by the launcher."},
    {.id = setting::local_rank,
     .name = "local rank",
     .type = integer,
     .built_in = "0",
     .limit = 65535,
     .environment = "HOROVOD_LOCAL_RANK",
     .doc = "Rank of this process on its host. Set by the launcher."},
    {.id = setting::local_size,
     .name = "local size",
     .type = integer,
     .built_in = "1",
     .minimum = 1,
     .limit = 65536,
     .environment = "HOROVOD_LOCAL_SIZE",
     .doc = "Number of processes on this host. Set by the launcher."},
    {.id = setting::cross_rank,
     .name = "cross rank",
     .type = integer,
     .built_in = "0",
     .limit = 65535,
     .environment = "HOROVOD_CROSS_RANK",
     .doc = "Index of this host among the hosts that have this local rank. Set by the launcher."},
    {.id = setting::cross_size,
     .name = "cross size",
     .type = integer,
     .built_in = "1",
     .minimum = 1,
     .limit = 65536,
     .environment = "HOROVOD_CROSS_SIZE",
     .doc = "Number of hosts that have this local rank. Set by the launcher."},
    {.id = setting::host_name,
     .name = "host name",
     .type = text,
     .built_in = "localhost",
     .environment = "HOROVOD_HOSTNAME",
     .doc = "Name of this host, as the host list gives it. Set by the launcher."},
    {.id = setting::rendezvous_address,
     .name = "rendezvous address",
     .type = text,
     .built_in = "",
     .environment = "HOROVOD_GLOO_RENDEZVOUS_ADDR",
     .doc = "Address of the rendezvous. Unset: the process is a job of its own. Set by the launcher."},
    {.id = setting::rendezvous_port,
     .name = "rendezvous port",
     .type = integer,
     .built_in = "-1",
     .minimum = -1,
     .limit = 65535,
     .environment = "HOROVOD_GLOO_RENDEZVOUS_PORT",
     .doc = "Port of the rendezvous. Set by the launcher."},
    {.id = setting::interface,
     .name = "interface",
     .type = text,
     .built_in = "",
     .environment = "HOROVOD_GLOO_IFACE",
     .doc = "Network interface that sockets bind to. Unset: see docs/guides/security.md."},
    {.id = setting::secret_descriptor,
     .name = "secret descriptor",
     .type = integer,
     .built_in = "-1",
     .minimum = -1,
     .limit = largest_int,
     .environment = "FARANDOLE_SECRET_FD",
     .doc =
         "Inherited file descriptor from which the job's secret is read, at offset 0. Set by the launcher."},
    {.id = setting::secret_file,
     .name = "secret file",
     .type = text,
     .built_in = "",
     .environment = "FARANDOLE_SECRET_FILE",
     .doc = "File that contains the job's secret, for launchers that do not pass a descriptor. Not read if "
            "the descriptor can be read."},
    {.id = setting::secret,
     .name = "secret",
     .type = text,
     .built_in = "",
     .environment = "FARANDOLE_SECRET",
     .confidential = true,
     .doc = "The job's secret itself, for launchers that can pass nothing but a variable; init() removes the "
            "variable from the environment. Used only if neither a readable descriptor nor a file is given. "
            "See guides/security.md."},
    {.id = setting::host_id,
     .name = "host id",
     .type = text,
     .built_in = "",
     .environment = "FARANDOLE_HOST_ID",
     .doc = "Identity of the host: processes share memory only if their ids are equal. Unset: boot id, IPC "
            "namespace and network namespace."},
    {.id = setting::port_range,
     .name = "port range",
     .type = text,
     .built_in = "",
     .is_valid = [](std::string_view text) { return port_range::parse(text).has_value(); },
     .form = "two ports with the lower one first, as in 40960-41215",
     .environment = "FARANDOLE_PORT_RANGE",
     .doc = "Ports on which the processes of a job listen, as LOWEST-HIGHEST. Unset: the system chooses. See "
            "guides/firewalls.md."},
};

} // namespace

std::span<const setting_row> members_settings() {
  return rows;
}

} // namespace farandole
