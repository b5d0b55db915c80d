@0xa5d20e7f3c81b946;
# How a member left its job in order, for messages to users: the other members describe it in the errors of their
# pending operations, and the launcher when it reports why the job failed.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct Departure {
  kind @0 :UInt8;
  exception @1 :Text;
  # Of kind "uncaught exception": its type and the first line of its message.
  # Of kind "exited": the first line of the given reason, if any.
  # At most 200 bytes, all printable.
  submitted @2 :UInt64;
  # Number of operations that the member had submitted to the global set.
  code @3 :Int32;
  # Of kind "exited": the exit code.
}
