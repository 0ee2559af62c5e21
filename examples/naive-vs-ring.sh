#!/usr/bin/env bash
# naive-vs-ring.sh [-n DEVICES] [-s SIZE] [-l LATENCY_MS] [-b MBIT] - compare the two algorithms of the lab.
#
# Times the same all-reduce of SIZE MiB (default 4) over DEVICES (4) by both algorithms, on links with the same latency
# (1 ms) and rate (400 Mbit/s), beside the cost model:
#
#	naive	2(p-1) n/B + 2L			everything passes rank 0's link
#	ring	2(p-1) (n/(pB) + L)		every link carries the same
#
# p devices, n bits, B bits a second, L latency. The formula of the ring is for one message a round. A message carries at
# most 1 MiB, so keep SIZE/DEVICES within that. Exits with 1 when a result is wrong.
set -euo pipefail

devices=4 mib=4 latency_ms=1 mbit=400
usage() {
	echo "usage: naive-vs-ring.sh [-n DEVICES] [-s SIZE_MIB] [-l LATENCY_MS] [-b MBIT_PER_S]" >&2
	exit 2
}
while getopts n:s:l:b: option; do
	case $option in
	n) devices=$OPTARG ;;
	s) mib=$OPTARG ;;
	l) latency_ms=$OPTARG ;;
	b) mbit=$OPTARG ;;
	*) usage ;;
	esac
	[[ ${OPTARG-} =~ ^[1-9][0-9]{0,4}$ ]] || usage
done
if [ $# -ge $OPTIND ] || [ "$devices" -lt 2 ]; then
	usage
fi

PATH=$PATH:$(dirname "$(readlink -f "$0")")/../build/bin

# measure ALGO: milliseconds, from the out-of-place columns of the table.
measure() {
	gpuctl run -n "$devices" --mem $((3 * mib + 16))M --latency "${latency_ms}ms" \
		--bandwidth "${mbit}Mb" -- gpuctl bench allreduce --algo "$1" --chunk 1M \
		-b "${mib}M" -e "${mib}M" --warmup 0 --iters 1 |
		awk '$1 ~ /^[0-9]+$/ { if ($9 + $13 > 0) exit 1; print $6 / 1000; n++ } END { exit n != 1 }'
}

naive=$(measure naive)
ring=$(measure ring)
awk -v p="$devices" -v mib="$mib" -v latency="$latency_ms" -v mbit="$mbit" \
	-v naive="$naive" -v ring="$ring" 'BEGIN {
	transfer = mib * 1048576 * 8 / (mbit * 1000)	# milliseconds of one vector on one link
	naive_model = 2 * (p - 1) * transfer + 2 * latency
	ring_model = 2 * (p - 1) * (transfer / p + latency)
	printf "%d devices, %d MiB, %d Mbit/s, %d ms\n", p, mib, mbit, latency
	printf "%-12s %10s %10s\n", "", "measured", "formula"
	printf "%-12s %7.1f ms %7.1f ms\n", "naive", naive, naive_model
	printf "%-12s %7.1f ms %7.1f ms\n", "ring", ring, ring_model
	printf "%-12s %10.2f %10.2f\n", "naive / ring", naive / ring, naive_model / ring_model
}'
