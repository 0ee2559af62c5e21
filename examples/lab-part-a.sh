#!/usr/bin/env bash
# lab-part-a.sh - part A of the lab (see gpusim(7)) with gpuctl: sum a vector on each of three devices by a ring
# all-reduce inside a group, and read it back. lab_part_a.c is the same with the C API.
#
#	gpuctl run -n 3 -- examples/lab-part-a.sh
#
# Outside a cluster, the script starts one.
set -euo pipefail

PATH=$PATH:$(dirname "$(readlink -f "$0")")/../build/bin
[ -n "${GPUSIM_COORD-}" ] || exec gpuctl run -n 3 -- "$0"

pack_f64() { perl -e 'print pack "d<*", @ARGV' -- "$@"; }
unpack_f64() { perl -e 'local $/; print join(" ", unpack "d<*", <STDIN>), "\n"'; }

vectors=('1 2 3' '4 5 6' '7 8 9')
count=3
addrs=()

# CommInit, and a buffer on each rank's device. Memcpy, host to device.
comm=$(gpuctl comm-init -n 3)
for rank in 0 1 2; do
	addrs[rank]=$(gpuctl malloc --comm "$comm" --rank "$rank" $((8 * count)))
	# shellcheck disable=SC2086 # one argument an element
	pack_f64 ${vectors[rank]} | gpuctl memcpy --comm "$comm" - "$rank:${addrs[rank]}"
	echo "rank $rank has ${vectors[rank]}"
done

# GroupStart, AllReduceRing, GroupEnd: queued. Then wait until it is no longer in progress.
addr_list=$(IFS=, && echo "${addrs[*]}")
echo "allreduce --addr $addr_list --count $count --type f64 --algo ring" |
	gpuctl group --comm "$comm" --async
gpuctl wait "$comm" >/dev/null
echo "allreduce: $(gpuctl comm-status "$comm")"

# Memcpy, device to host; verify; CommDestroy.
for rank in 0 1 2; do
	sum=$(gpuctl memcpy --comm "$comm" "$rank:${addrs[rank]}:$((8 * count))" - | unpack_f64)
	echo "rank $rank has $sum"
	[ "$sum" = '12 15 18' ]
	gpuctl free --comm "$comm" --rank "$rank" "${addrs[rank]}"
done
gpuctl comm-destroy "$comm"
