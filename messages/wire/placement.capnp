@0xa4d1c35be9720f86;
# The messages between the launcher and the agent of a host. The agent is a process that dials the launcher, starts
# processes on its host and forwards their output and exit status.
#
#   agent → launcher   AgentHello       first message: which host this is
#   launcher → agent   AgentAccepted    the agent serves this job
#   launcher → agent   StartProcess     start a process; a repeated message with the same number has no effect
#   launcher → agent   SignalProcess    send a signal to the process group
#   launcher → agent   ProcessInput     bytes for the standard input or the channel of a process
#   launcher → agent   OutputConsumed   this many more bytes of a stream may be sent (back-pressure)
#   launcher → agent   LeaveHost        end, once no process runs
#   launcher → agent   TestAddresses    test the connections to other hosts (reachability.capnp)
#   agent → launcher   ProcessStarted   the process runs
#   agent → launcher   ProcessOutput    bytes of a stream, at most the granted number
#   agent → launcher   InputTaken       this many bytes of an input were written to the process, or dropped
#   agent → launcher   ProcessEnded     the process has ended or could not be started
#   agent → launcher   ProcessFinished  all output was sent, and the process group is gone
#   agent → launcher   AddressesTested  the result of a test
#   agent → launcher   HostLeaving      the agent received SIGTERM: its host is to leave the job
#
# The number of a process is unique within the job. An agent that is not accepted receives Refused.
#
# A program of the user (farandole rsh) runs a command on the host of an agent by way of the launcher:
#
#   program → launcher   RunCommand        first message: on which host
#   launcher → program   CommandAccepted   the number of the process
#
# Then the program and the agent exchange the messages above about this process, as launcher and agent do. The launcher
# forwards them. The program receives Refused if the command cannot be run, or if the host is lost.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

struct HostAddress {
  interface @0 :Text;
  address @1 :Text;
  # Numeric, without a scope.
}

struct AgentHello {
  wireVersion @0 :UInt32;
  # Must equal the launcher's exactly.
  version @1 :Text;
  program @2 :Text;
  # Path of the agent's program, for messages.
  host @3 :Text;
  # The name that the agent was given, or the host's own name.
  machine @4 :Text;
  # Identity of the machine: equal for all names of one machine.
  addresses @5 :List(HostAddress);
  reached @6 :Text;
  # The launcher's address at which the agent reached it.
  own @9 :Text;
  # The address of this host on that connection.
  cores @7 :Int32;
  # Number of usable cores.
  slots @8 :Int32;
  # Number of slots that the user gave; 0: none.
}

struct StartProcess {
  number @0 :UInt32;
  arguments @1 :List(Data);
  environment @2 :List(Data);
  # "NAME=value"; replaces and extends the agent's own environment.
  directory @3 :Data;
  # Working directory; empty: that of the agent.
  window @4 :UInt32;
  # Number of bytes of each stream that may be sent before OutputConsumed.
  joinsJob @5 :Bool;
  # The process inherits the job's secret, as workers do.
  channelVariable @7 :Text;
  # If not empty, the process has a channel, a socket in both directions, whose descriptor this variable names.
  keepsInput @8 :Bool;
  # The standard input is fed by ProcessInput; otherwise it is empty.
  lingerMilliseconds @6 :UInt32;
  # Longest wait for the end of the output after the end of the process.
}

struct SignalProcess {
  number @0 :UInt32;
  signal @1 :Int32;
}

struct ProcessInput {
  number @0 :UInt32;
  stream @2 :UInt8;
  # 0: standard input; 2: the channel.
  bytes @1 :Data;
  ended @3 :Bool;
  # No further bytes follow on this stream; only for standard input.
}

struct InputTaken {
  number @0 :UInt32;
  stream @2 :UInt8;
  bytes @1 :UInt32;
}

struct OutputConsumed {
  number @0 :UInt32;
  stream @1 :UInt8;
  bytes @2 :UInt32;
}

struct ProcessStarted {
  number @0 :UInt32;
  process @1 :Int32;
  # Its process id.
  warning @2 :Text;
  # Text for the user, such as that the working directory does not exist; or empty.
}

struct ProcessOutput {
  number @0 :UInt32;
  stream @1 :UInt8;
  # 0: standard output; 1: standard error; 2: the channel.
  bytes @2 :Data;
  ended @3 :Bool;
}

struct ProcessEnded {
  number @0 :UInt32;
  code @1 :Int32;
  # The code that a shell reports.
  signal @2 :Int32;
  failure @3 :Text;
  # Why the process could not be started; empty if it ran.
}

struct ProcessFinished {
  number @0 :UInt32;
}

struct RunCommand {
  wireVersion @0 :UInt32;
  # Must equal the launcher's exactly.
  host @1 :Text;
  # The name under which the launcher knows the host.
}

struct CommandAccepted {
  number @0 :UInt32;
}
