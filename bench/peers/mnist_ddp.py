#!/usr/bin/python3
"""mnist_ddp - what mnist-train does, with PyTorch's DistributedDataParallel over gloo: a peer.

    mnist_ddp.py [DIR [N [EPOCHS [BATCH]]]]        (data/mnist, 2, 5, 64)

N processes of one thread each. 784-128-10, relu, softmax cross-entropy; SGD, lr 0.1, momentum 0.9;
f32. Each process holds the normalised images as a tensor and selects its part once per epoch, so
that a step takes a slice. Prints a line an epoch: loss, test accuracy, images a second (without
the test).
"""
import gzip
import os
import socket
import sys
import time


def tune():
    """Before torch is loaded: OpenBLAS falls back to SSE3 on a processor it does not know."""
    with open("/proc/cpuinfo", encoding="ascii") as f:
        flags = f.read()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    if "avx512vl" in flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    elif "avx2" in flags:
        os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")


tune()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def load(path, header):
    opened = open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz")
    with opened as f:
        return torch.frombuffer(bytearray(f.read()[header:]), dtype=torch.uint8)


def load_part(folder, part):
    images = load(f"{folder}/{part}-images-idx3-ubyte", 16).view(-1, 784)
    labels = load(f"{folder}/{part}-labels-idx1-ubyte", 8)
    return images.float().div_(255), labels.long()


def part_of(rank, n, items, batch):
    """Which places of an epoch's order are this rank's: its part of every global batch."""
    whole = items // (batch * n) * batch * n
    rest = (items - whole) // n
    mine = torch.arange(whole).view(-1, n, batch)[:, rank].reshape(-1)
    return torch.cat([mine, torch.arange(whole + rank * rest, whole + (rank + 1) * rest)])


def run(rank, n, port, folder, epochs, batch):
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) >= n:
        os.sched_setaffinity(0, {cpus[rank]})
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=n)
    images, labels = load_part(folder, "train")
    test_images, test_labels = load_part(folder, "t10k")
    torch.manual_seed(1)
    net = torch.nn.Sequential(
        torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )
    ddp = DistributedDataParallel(net, gradient_as_bucket_view=True, broadcast_buffers=False)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)
    mine = part_of(rank, n, len(images), batch)
    for epoch in range(1, epochs + 1):
        dist.barrier()
        began = time.monotonic()
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))[mine]
        x, y = images[order], labels[order]
        total = torch.zeros(())
        for at in range(0, len(x), batch):
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(ddp(x[at : at + batch]), y[at : at + batch])
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(x[at : at + batch])
        dist.barrier()
        seconds = time.monotonic() - began
        with torch.no_grad():
            right = (net(test_images).argmax(1) == test_labels).float().mean().item()
        dist.all_reduce(total)
        if rank == 0:
            print(
                f"epoch {epoch}/{epochs}  loss {total.item() / len(x) / n:.4f}"
                f"  test accuracy {100 * right:.2f} %  {len(x) * n / seconds:.0f} images/s",
                flush=True,
            )
    dist.destroy_process_group()


def main():
    folder, n, epochs, batch = (sys.argv[1:] + ["data/mnist", "2", "5", "64"][len(sys.argv) - 1 :])[:4]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    args = (int(n), port, folder, int(epochs), int(batch))
    torch.multiprocessing.spawn(run, args=args, nprocs=int(n))


if __name__ == "__main__":
    main()
