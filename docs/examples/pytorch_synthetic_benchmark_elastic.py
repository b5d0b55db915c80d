"""Measures the same as pytorch_synthetic_benchmark.py, on workers that may come and go while it runs.

    horovodrun -np 4 --min-np 2 -H localhost:4 python docs/examples/pytorch_synthetic_benchmark_elastic.py --no-cuda

What makes it elastic is marked with "(elastic)". The last lines are about all iterations, whoever was there.
"""

import horovod.torch as hvd
from pytorch_synthetic_benchmark import (
    argument_parser,
    batch,
    device_of_worker,
    log,
    log_start,
    log_summary,
    model_and_optimizer,
    rate,
    run_steps,
)


def parse_arguments():
    parser = argument_parser()
    parser.add_argument("--num-batches-per-commit", type=int, default=1, help="measurements between two commits")
    return parser.parse_args()


@hvd.elastic.run  # (elastic) called again when members have changed
def benchmark(state, args, device):
    images, labels = batch(args, device)
    log_start(args, device)
    if not state.warm:
        run_steps(args.num_warmup_batches, state.model, state.optimizer, images, labels)
        state.warm = True
        state.commit()
    while len(state.speeds) < args.num_iters:
        speed = run_steps(args.num_batches_per_iter, state.model, state.optimizer, images, labels)
        state.speeds = [*state.speeds, speed]
        log(f"Iter #{len(state.speeds) - 1}: {speed:.1f} img/sec per worker")
        # (elastic) all workers commit at the same measurement: there members join and leave
        if len(state.speeds) % args.num_batches_per_commit == 0:
            state.commit()
    log_summary(state.speeds)


def main():
    args = parse_arguments()
    hvd.init()
    device = device_of_worker(args)
    model, optimizer = model_and_optimizer(args, device)
    # (elastic) rank 0's state is given to all when benchmark() begins, and each time that members have changed
    state = hvd.elastic.TorchState(model, optimizer, warm=False, speeds=[])

    def follow_the_size():
        for group in optimizer.param_groups:
            group["lr"] = rate(args)

    state.register_reset_callbacks([follow_the_size])
    benchmark(state, args, device)


if __name__ == "__main__":
    main()
