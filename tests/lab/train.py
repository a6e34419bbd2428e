"""A rank of a torchrun job on hosts with several ports: `train.py BYTES REPEATS`.

All-reduces of each data-parallel group (the ranks with the same local rank) by gloo, on the adapter next to the rank's
GPU. Rank 0 prints the hosts in rank order and the seconds of each all-reduce.
"""

import json
import os
import socket
import sys
import time

import torch
import torch.distributed as dist


def main() -> None:
    size, repeats = int(sys.argv[1]), int(sys.argv[2])
    local, each = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(each)))
    os.environ["GLOO_SOCKET_IFNAME"] = f"eth{gpus.split(',')[local]}"
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(first, world, each))) for first in range(each)]
    hosts: list[str] = [""] * world
    dist.all_gather_object(hosts, socket.gethostname())
    vector = torch.ones(size // 4)
    seconds = []
    for _ in range(repeats):
        dist.barrier()
        begin = time.monotonic()
        dist.all_reduce(vector, group=groups[local])
        dist.barrier()
        seconds.append(time.monotonic() - begin)
    assert float(vector[0]) == float(world // each) ** repeats
    if rank == 0:
        print(json.dumps({"hosts": hosts[::each], "seconds": seconds}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
