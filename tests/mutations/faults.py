"""Deliberate faults, each in one place of the product, with the part of the standard suite that must catch it.

They are the mistakes that a change could make: a case that is forgotten, a limit that is off by one, a wrong order.
None makes the program crash by itself.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple

PYTHON = "bindings/python/farandole"


class Fault(NamedTuple):
    """A fault: `text`, which `file` contains once, becomes `faulty`."""

    name: str
    file: str
    text: str
    faulty: str
    breaks: str
    """What it breaks."""
    part: str
    """The part of the suite that must fail, with `--only only`."""
    only: str

    @property
    def selection(self) -> Tuple[str, str]:
        return self.part, self.only


FAULTS = (
    Fault(
        "negotiation",
        "collectives/negotiation/signature_check.cpp",
        "for (std::size_t i = 1; i < a.size(); ++i)",
        "for (std::size_t i = 1; i + 1 < a.size(); ++i)",
        "An allgather of tensors that differ in their last extent is accepted.",
        "unit",
        "negotiation_test",
    ),
    Fault(
        "join",
        "collectives/negotiation/signature_check.cpp",
        "if (!joined.empty() && !row.takes_zeros)",
        "if (joined.size() > 1 && !row.takes_zeros)",
        "An operation that needs all ranks goes on when one rank has joined.",
        "unit",
        "negotiation_test",
    ),
    Fault(
        "fusion",
        "collectives/fusion/fusion.cpp",
        "same_bits(other.prescale, head.prescale) &&\n          same_bits(other.postscale, head.postscale));",
        "same_bits(other.prescale, head.prescale));",
        "Tensors with different factors after the sum are fused, and get the factor of the first.",
        "unit",
        "negotiation_test",
    ),
    Fault(
        "fast-path",
        "collectives/negotiation/fast_path_allocator.cpp",
        "if (footprint > options_.area_bytes - used_)",
        "if (footprint >= options_.area_bytes - used_)",
        "A cell that would fill the area of the fast path exactly is refused.",
        "unit",
        "negotiation_test",
    ),
    Fault(
        "shared-memory",
        "collectives/transport/shm/shm_allreduce.cpp",
        "rounded_up((bytes + members - 1) / members, share_alignment)",
        "rounded_up(bytes / members, share_alignment)",
        "The last bytes of an allreduce belong to no member's share, and are not reduced.",
        "unit",
        "transport_test",
    ),
    Fault(
        "tcp",
        "collectives/transport/tcp/tcp_channel.cpp",
        "if (header->left != target->left) {",
        "if (header->left > target->left) {",
        "A message that is shorter than the receiver expects is accepted.",
        "unit",
        "transport_test",
    ),
    Fault(
        "authentication",
        "collectives/transport/tcp/channel_handshake.cpp",
        "theirs.from > group_.rank;",
        "theirs.from >= group_.rank;",
        "A member accepts its own connection, which an attacker reflects to it.",
        "unit",
        "transport_test",
    ),
    Fault(
        "membership",
        "elastic/formation.cpp",
        "next.must_sync |= !goes_on || chosen",
        "next.must_sync |= chosen",
        "A generation with new members starts without giving them the state of the others.",
        "world",
        "world_test",
    ),
    Fault(
        "ranking",
        "elastic/ranking.cpp",
        "b.last_rank, a.hello_message->state_generation, b.slot);",
        "b.last_rank, b.hello_message->state_generation, b.slot);",
        "Of the members that are new, the one with the newest state is no longer first, which sends its state to all.",
        "unit",
        "elastic_test",
    ),
    Fault(
        "elastic-state",
        f"{PYTHON}/common/elastic/state.py",
        "            setattr(self, name, _copied(value, copier))",
        "            setattr(self, name, value)",
        "A list that is changed in place after it was put back changes the last commit, too.",
        "framework-jobs",
        "arithmetic/test_state",
    ),
    Fault(
        "exit-code",
        "actors/launch/job_ending.cpp",
        "  if (code_ == 0)\n    code_ = 128 + signal;",
        "  code_ = 128 + signal;",
        "After Ctrl-C the launcher forgets the exit code of the worker that had failed before.",
        "unit",
        "actors_test",
    ),
    Fault(
        "output",
        "actors/launch/output_prefix.cpp",
        "after_return_ = bytes[end] == '\\r' && end + 1 == bytes.size();",
        "after_return_ = false;",
        "A carriage return and a newline that come in two reads make two lines of output.",
        "unit",
        "actors_test",
    ),
    Fault(
        "ssh",
        "actors/launch/placer_commands.cpp",
        "if (running.in_use.empty())",
        "if (running.in_use.size() <= 1)",
        "The command that starts agents on several hosts is ended while one host still needs it.",
        "unit",
        "actors_test",
    ),
    Fault(
        "agents",
        "elastic/agent_table.cpp",
        "entry.deadline = *(entry.give_up = entry.give_up.value_or(entry.deadline));",
        "entry.give_up = entry.deadline;",
        "Each further try to start an agent has the whole start timeout again.",
        "unit",
        "elastic_test",
    ),
    Fault(
        "trace",
        "messages/record/event_trace.cpp",
        "if (calls == bounds_.steps + 1)",
        "if (calls == bounds_.steps)",
        "A trace of so many steps ends one step too early.",
        "unit",
        "messages_test",
    ),
    Fault(
        "stalls",
        "elastic/stall_text.cpp",
        "const bool is_long = ranks.size() > most_names + 1;",
        "const bool is_long = ranks.size() > most_names;",
        'A report of stalls says "and 1 more" where it could name the rank.',
        "unit",
        "elastic_test",
    ),
    Fault(
        "process-sets",
        f"{PYTHON}/common/process_sets.py",
        "    for each in [process_set, *_registered.pop(number, [])]:",
        "    _registered.pop(number, [])\n    for each in [process_set]:",
        "An object for a process set keeps its number when another object for the same set is removed.",
        "parallel",
        "test_process_sets",
    ),
    Fault(
        "torch",
        f"{PYTHON}/torch/sync_batch_norm.py",
        "unbiased = variance * (total / max(total - 1.0, 1.0))",
        "unbiased = variance",
        "SyncBatchNorm keeps a running variance that is too small.",
        "parallel",
        "test_sync_batch_norm",
    ),
    Fault(
        "tensorflow",
        f"{PYTHON}/tensorflow/gradient_aggregation.py",
        "for total in get_not_none_from_list(self.locally_aggregated_grads)",
        "for total in get_not_none_from_list(self.locally_aggregated_grads)[1:]",
        "With several passes per step, the sum of the first variable's gradients is not set to zero again.",
        "framework-jobs",
        "tensorflow/test_launch_sessions",
    ),
    Fault(
        "keras",
        f"{PYTHON}/_keras/rate_callbacks.py",
        '_assign(self.model.optimizer, "momentum", self._momentum)\n            self._momentum = None',
        "self._momentum = None",
        "The momentum that is corrected for the batch in which the rate changes is not put back afterwards.",
        "frameworks",
        "keras/test_callbacks",
    ),
    Fault(
        "unused-variables",
        f"{PYTHON}/_keras/unused_variables.py",
        "self._farandole.where_used(variable, lambda: update(gradient, variable, learning_rate))",
        "update(gradient, variable, learning_rate)",
        "In functions, a variable that no rank has used is changed by a gradient of zeros.",
        "frameworks",
        "keras/test_unused_variables",
    ),
    Fault(
        "jax",
        f"{PYTHON}/jax/optimizer.py",
        "return jax.lax.cond(state.passes + 1 >= passes, take, wait, sums)",
        "return jax.lax.cond(state.passes >= passes, take, wait, sums)",
        "The optimizer reduces one pass too late.",
        "frameworks",
        "jax/test_optimizer",
    ),
    Fault(
        "mxnet",
        f"{PYTHON}/mxnet/trainer.py",
        "params = sorted(params, key=lambda each: str(each.name))",
        "params = list(params)",
        "Ranks that list their parameters in different orders add up the gradients of different parameters.",
        "frameworks",
        "mxnet/test_",
    ),
    Fault(
        "lightning",
        f"{PYTHON}/lightning/strategy.py",
        "hvd.broadcast_parameters(model.state_dict(), root_rank=0)",
        "hvd.broadcast_parameters(dict(model.named_parameters()), root_rank=0)",
        "A model's buffers, such as the averages of batch norm, differ between the ranks at the start.",
        "frameworks",
        "lightning/test_training",
    ),
    Fault(
        "ray",
        f"{PYTHON}/ray/coordinator.py",
        "nodes = sorted(sorted(ranks) for ranks in self._ranks_of_nodes.values())",
        "nodes = [sorted(ranks) for ranks in self._ranks_of_nodes.values()]",
        "Nodes are numbered in the order in which their workers registered, not in that of their ranks.",
        "ray",
        "test_coordinator",
    ),
    Fault(
        "spark",
        f"{PYTHON}/spark/runner.py",
        "        streams=streams,",
        "        streams=(streams[0], streams[0]),",
        "What workers write to standard error goes to the stream that was given for standard output.",
        "spark",
        "spark/test_run.py",
    ),
    Fault(
        "gpu",
        "actors/gpu/launch_order.cpp",
        "return found == launched_.end() || found->second >= each.count;",
        "return found == launched_.end() || found->second + 1 >= each.count;",
        "A kernel of NCCL is launched before the last of those that must come before it.",
        "unit",
        "actors_test",
    ),
    Fault(
        "c-interface",
        "bindings/c/translation.cpp",
        "product *= extent != 0 ? extent : 1;",
        "product *= extent;",
        "A shape with an extent of zero hides that its other extents overflow.",
        "unit",
        "c_test",
    ),
    Fault(
        "decoder",
        "messages/record/event_reader.cpp",
        "if (memory.size() != layout.bytes())",
        "if (memory.size() > layout.bytes())",
        "A file of events that was cut off is read beyond its end.",
        "corpus",
        "fuzz_event_record",
    ),
    Fault(
        "reach",
        "elastic/network_choice.cpp",
        "if (attempt.address != address.address || attempt.problem.empty())",
        "if (attempt.address != address.address || attempt.problem.empty() || attempt.from != host.host)",
        "An address that another host cannot reach is used.",
        "unit",
        "elastic_test",
    ),
)
