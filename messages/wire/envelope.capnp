@0xc3f1a6d2b8e04971;
# Every message between processes is one Envelope.
#
# Ids and their lifetimes
# -----------------------
# generation  Counts the memberships of a job, from 1. Only the rendezvous starts generations. A message of an
#             older generation than the receiver's is dropped; one of a later generation is held, in a bounded
#             queue, until the receiver enters it. Messages that belong to no generation (hello) carry 0.
# set         The number of a process set, which is unique within the generation; 0 is the global set.
# source      The sender's global rank in `generation`; -1 for the rendezvous and before ranks are known.
# target      Of a message down the tree of relays: the rank of the receiver, or -1 for all members of the set.
#             Of every other message: -1.
#
# The two processes at the ends of a link compare wire versions in their hello and close the link when they
# differ: within one job, both ends are the same build of this schema.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("farandole::wire");

using Drain = import "drain.capnp";
using Heartbeat = import "heartbeat.capnp";
using Membership = import "membership.capnp";
using Recovery = import "rendezvous_recovery.capnp";
using Negotiation = import "negotiation.capnp";
using Placement = import "placement.capnp";
using Reachability = import "reachability.capnp";
using Records = import "records.capnp";
using Stalls = import "stalls.capnp";

struct Envelope {
  generation @0 :UInt64;
  set @1 :UInt32;
  source @2 :Int32;
  target @15 :Int32 = -1;

  body :union {
    none @3 :Void;

    # Between a member and the rendezvous.
    hello @4 :Membership.Hello;
    welcome @5 :Membership.Welcome;
    lost @6 :Membership.Lost;
    farewell @7 :Membership.Farewell;
    refused @8 :Membership.Refused;
    changed @16 :Membership.Changed;
    returning @17 :Recovery.Returning;
    resumed @18 :Recovery.Resumed;
    superseded @19 :Recovery.Superseded;
    leaving @22 :Drain.Leaving;
    awaited @25 :Membership.Awaited;
    stalls @48 :Stalls.Stalls;
    stallReport @49 :Stalls.StallReport;

    # Between a launcher and a rendezvous that runs apart from it.
    slots @20 :Recovery.Slots;
    formed @21 :Recovery.Formed;

    # Between a tool and the rendezvous.
    drain @23 :Drain.Drain;
    draining @24 :Drain.Draining;
    writeRecords @42 :Records.WriteRecords;
    recordsWritten @43 :Records.RecordsWritten;

    # Between a member and the leader of a process set.
    greeting @9 :Membership.Greeting;
    pathAddresses @10 :Membership.PathAddresses;
    memberPathAddresses @11 :Membership.MemberPathAddresses;
    requests @12 :Negotiation.Requests;
    schedule @13 :Negotiation.Schedule;
    gathered @14 :Negotiation.Gathered;

    # Between the launcher and the agent of a host.
    agentHello @27 :Placement.AgentHello;
    agentAccepted @28 :Void;
    startProcess @29 :Placement.StartProcess;
    signalProcess @30 :Placement.SignalProcess;
    outputConsumed @31 :Placement.OutputConsumed;
    leaveHost @32 :Void;
    processStarted @33 :Placement.ProcessStarted;
    processOutput @34 :Placement.ProcessOutput;
    processEnded @35 :Placement.ProcessEnded;
    processFinished @36 :Placement.ProcessFinished;
    hostLeaving @37 :Void;
    processInput @38 :Placement.ProcessInput;
    inputTaken @39 :Placement.InputTaken;
    sendRecords @44 :Records.SendRecords;
    recordPart @45 :Records.RecordPart;
    recordPartTaken @46 :Records.RecordPartTaken;
    recordsSent @47 :Records.RecordsSent;
    testAddresses @51 :Reachability.TestAddresses;
    addressesTested @52 :Reachability.AddressesTested;

    # Between the launcher and a program that runs a command on a host of the job.
    runCommand @40 :Placement.RunCommand;
    commandAccepted @41 :Placement.CommandAccepted;

    # Between the two members at the ends of a link.
    heartbeat @26 :Heartbeat.Heartbeat;
    clock @50 :Heartbeat.Clock;
  }
}
