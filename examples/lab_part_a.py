#!/usr/bin/python3
"""lab_part_a HOST:PORT N [COUNT] - part A of the lab (see gpusim(7)) over gRPC: sum a vector of COUNT doubles on
each of N devices by a ring all-reduce, read it back and compare; then send device 0's sum to device 1.

    gpuctl run -n 3 --grpc 127.0.0.1:50051 -- examples/lab_part_a.py 127.0.0.1:50051 3

Device r holds r + i/2 at index i, so every sum is exact. Exits with 0 when every element is right. Needs Python's
grpcio and grpcio-tools (Debian: python3-grpcio, python3-grpc-tools).
"""
import importlib
import os
import struct
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "proto")


def generate():
    """Make the classes of the .proto with protoc: messages, and stubs of the services."""
    with tempfile.TemporaryDirectory() as folder:
        out = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
        if protoc.main(["protoc", f"-I{PROTO}", *out, "gpu_sim.proto"]) != 0:
            sys.exit("lab_part_a: protoc failed")
        sys.path.insert(0, folder)
        return [importlib.import_module(m) for m in ("gpu_sim_pb2", "gpu_sim_pb2_grpc")]


pb, rpc = generate()


def upload(coordinator, device, values):
    copy = pb.MemcpyHostToDeviceRequest(
        hostSrcData=struct.pack(f"<{len(values)}d", *values),
        dstDeviceId=device.deviceId,
        dstMemAddr=device.minMemAddr,
    )
    coordinator.Memcpy(pb.MemcpyRequest(hostToDevice=copy))


def download(coordinator, device, count):
    copy = pb.MemcpyDeviceToHostRequest(
        srcDeviceId=device.deviceId, srcMemAddr=device.minMemAddr, numBytes=8 * count
    )
    answer = coordinator.Memcpy(pb.MemcpyRequest(deviceToHost=copy))
    return struct.unpack(f"<{count}d", answer.deviceToHost.dstData)


def all_reduce(coordinator, comm, count):
    addrs = {r: device.minMemAddr for r, device in enumerate(comm.devices)}
    coordinator.GroupStart(pb.GroupStartRequest(commId=comm.commId))
    coordinator.AllReduceRing(
        pb.AllReduceRingRequest(commId=comm.commId, count=count, op=pb.SUM, memAddrs=addrs)
    )
    coordinator.GroupEnd(pb.GroupEndRequest(commId=comm.commId))
    await_success(lambda: coordinator.GetCommStatus(pb.GetCommStatusRequest(commId=comm.commId)))


def await_success(ask):
    answer = ask()
    while answer.status == pb.IN_PROGRESS:
        time.sleep(0.001)
        answer = ask()
    if answer.status != pb.SUCCESS:
        sys.exit(f"lab_part_a: {answer.reason}")


def send(comm, count):
    """Send from device 0 to device 1, which serve gRPC themselves."""
    stub = [rpc.GPUDeviceStub(grpc.insecure_channel(d.grpcAddress)) for d in comm.devices[:2]]
    addr = [d.minMemAddr for d in comm.devices[:2]]
    begun = stub[0].BeginSend(
        pb.BeginSendRequest(sendBuffAddr=addr[0], numBytes=8 * count, dstRank=pb.Rank(value=1))
    )
    stub[1].BeginReceive(
        pb.BeginReceiveRequest(
            streamId=begun.streamId,
            recvBuffAddr=addr[1],
            numBytes=8 * count,
            srcRank=pb.Rank(value=0),
        )
    )
    await_success(
        lambda: stub[1].GetStreamStatus(pb.GetStreamStatusRequest(streamId=begun.streamId))
    )


def main():
    if len(sys.argv) not in (3, 4):
        print("usage: lab_part_a HOST:PORT N [COUNT]", file=sys.stderr)
        return 2
    address, n = sys.argv[1], int(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) == 4 else 1000
    coordinator = rpc.GPUCoordinatorStub(grpc.insecure_channel(address))
    comm = coordinator.CommInit(pb.CommInitRequest(numDevices=n))
    for rank, device in enumerate(comm.devices):
        upload(coordinator, device, [rank + i / 2 for i in range(count)])
    all_reduce(coordinator, comm, count)
    expected = tuple(n * (n - 1) / 2 + n * i / 2 for i in range(count))
    wrong = sum(download(coordinator, device, count) != expected for device in comm.devices)
    if n > 1:
        upload(coordinator, comm.devices[1], [0] * count)
        send(comm, count)
        wrong += download(coordinator, comm.devices[1], count) != expected
    coordinator.CommDestroy(pb.CommDestroyRequest(commId=comm.commId))
    print(f"{n} devices, {count} doubles each: {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except grpc.RpcError as error:
        sys.exit(f"lab_part_a: {error.code().name}: {error.details()}")
