# Algorithms on clusters that are not here: gpuctl simulate beyond NCCL's own choice.
load helper

setup() {
	house_setup
	ALGOS=$ROOT/examples/algos
}
teardown() { house_teardown; }

refused() { # STATUS TEXT ARG...
	run -"$1" bounded gpuctl simulate "${@:3}"
	[[ $output == *"$2"* && ${#lines[@]} -eq 1 ]] || fail "$output"
}

# us ARG... - the time of the only row
us() { gpuctl simulate "$@" | awk '!/^#/ { print $6 }'; }

@test "simulate: a row of the links has the columns of a row of NCCL's model" {
	needs python3
	gpuctl simulate allreduce -c h100-ib400 -n 16 -b 1K -e 16M -f 16 >model
	gpuctl simulate allreduce -c h100-ib400 -n 16 -b 1K -e 16M -f 16 --algo halving-doubling >links
	gpuctl simulate allreduce -c h100-ib400 -b 1K -e 16M -f 16 --algo-file "$ALGOS/ring.algo" >file
	for f in model links file; do
		[[ $(grep -vc '^#' $f) -eq 4 ]] || fail "$(cat $f)"
		awk '!/^#/ && (NF != 17 || $2 * 4 != $1 || $3 != "float" || $4 != "sum" || $6 <= 0) { exit 1 }' $f
		awk '!/^#/ { bw = $1 / 1000 / $6; d = bw - $7 } d * d > 1e-3 * bw * bw + 1e-4 { exit 1 }' $f
	done
	grep -v '^#' links | grep -q ' halving-doubling  SIMPLE '
	gpuctl simulate alltoall -c h100-ib400 -n 16 -b 1M -e 1M --algo bruck --json |
		python3 -c 'import json,sys; r = json.load(sys.stdin)["rows"][0]
assert r["model"] == "links" and r["algo"] == "bruck" and r["busiest"][0]["bytes"] > 0
assert abs(sum(r["links_us"].values()) - r["time_us"]) < 1e-3 * r["time_us"]'
}

@test "simulate: messages share links, and --explain names the fullest" {
	printf '%s\n' 'gpu = h100' 'hosts = 2' 'gpus per host = 4' 'nics = 4 x 400Gb/s ib' >wide.ini
	sed 's/4 x 400/1 x 400/' wide.ini >narrow.ini
	at=(broadcast -b 64M -e 64M --algo naive)
	wide=$(us "${at[@]}" -c wide.ini) narrow=$(us "${at[@]}" -c narrow.ini)
	awk -v a="$wide" -v b="$narrow" 'BEGIN { exit !(a > 0 && a == b) }' # one root, one NIC
	at=(alltoall -b 64M -e 64M --algo pairwise)
	wide=$(us "${at[@]}" -c wide.ini) narrow=$(us "${at[@]}" -c narrow.ini)
	awk -v a="$wide" -v b="$narrow" 'BEGIN { exit !(b > 1.4 * a) }' || fail "$wide $narrow"
	gpuctl simulate "${at[@]}" -c narrow.ini --explain >told
	grep -qE "^#   host [01]'s NIC 0 (in|out): .* the bottleneck (9[0-9]|8[0-9])" told
	grep -qE '^#   step [0-9]+ of rank [0-7], from .* by host [01].s NIC 0' told
	gpuctl simulate allreduce -c wide.ini -n 4 -b 64M -e 64M --algo tree --explain >told
}

@test "simulate: -n is --gpus; plan --simulate is simulate without a cluster" {
	at=(allreduce -c h100-ib400 -b 1M -e 4M --algo pairwise)
	diff <(gpuctl simulate "${at[@]}" -n 16) <(gpuctl simulate "${at[@]}" --gpus 16)
	diff <(gpuctl plan allreduce -n 8 --bytes 1M --simulate) <(gpuctl simulate allreduce -n 8 --bytes 1M)
	diff <(gpuctl plan allgather -n 8 --simulate --json) <(gpuctl simulate allgather --gpus 8 --json)
}

@test "simulate: wrong usage is 2, a file that is not proven 5" {
	refused 2 'the cluster has 2' allreduce -c two-cores -n 3 --algo pairwise
	refused 2 'is not an algorithm of allreduce' allreduce -c h100-ib400 -n 8 --algo oneshot
	refused 2 "--channels: only for NCCL's algorithms" allreduce -c h100-ib400 -n 8 --algo pairwise --channels 2
	refused 2 'is for 4 ranks, but -n is 5' allreduce -c h100-ib400 --gpus 5 --algo-file "$ALGOS/ring.algo"
	refused 2 'is for allreduce, not alltoall' alltoall -c h100-ib400 --algo-file "$ALGOS/ring.algo"
	refused 2 'cannot be combined with --algo' allreduce -c h100-ib400 --algo-file "$ALGOS/ring.algo" --algo ring
	printf '%s\n' 'algorithm wrong' 'collective allreduce' 'ranks 2' 'chunks 1' \
		'reduce 0.data[0] -> 1.data[0]' >wrong.algo
	refused 5 'rank 0 chunk 0 ends without the contribution of rank 1' allreduce -c h100-ib400 --algo-file wrong.algo
	refused 1 'missing.algo' allreduce -c h100-ib400 --algo-file missing.algo
}

@test "simulate: 16,384 ranks answer, in little memory, and name the link and step" {
	for algo in ring tree ring-hierarchical; do
		# shellcheck disable=SC2016
		bounded bash -c 'ulimit -v 2097152; gpuctl simulate allreduce --cluster h100-ib400 --gpus 16384 -b 1G -e 1G --algo "$1" --explain' _ $algo >told
		[[ $(grep -vc '^#' told) -eq 1 ]] || fail "$(cat told)"
		grep -qE 'of 16384 ranks simulated' told
		grep -qE '^#   step [0-9]+ of rank [0-9]+, from ' told
		grep -qE "^#   (host [0-9]+'s NIC [0-7] (in|out)|GPU [0-9]+'s way (into|from) its domain): .* the bottleneck" told
	done
	bounded gpuctl simulate alltoall -c h100-ib400 -n 16384 -b 1G -e 1G --explain | grep -q 'by messages of group'
}

@test "simulate: rings and trees by rails are within reach of NCCL's closed forms" {
	for algo in ring tree; do
		model=$(us allreduce -c h100-ib400 -n 64 -b 1G -e 1G --algo $algo --proto simple)
		links=$(us allreduce -c h100-ib400 -n 64 -b 1G -e 1G --algo $algo-rails)
		awk -v a="$model" -v b="$links" 'BEGIN { exit !(a < 1.4 * b && b < 1.4 * a) }' || fail "$model $links"
	done
	for what in 'allgather ring-rails' 'reduce-scatter ring-rails' 'broadcast ring-rails' 'reduce ring-rails' \
		'alltoall hierarchical' 'alltoall group' 'sendrecv next'; do
		read -r coll algo <<<"$what"
		gpuctl simulate "$coll" -c h100-ib400 -n 64 -b 1M -e 16M -f 4 --algo "$algo" --channels 4 >rows
		[[ $(grep -c " $algo " rows) -eq 3 ]] || fail "$(cat rows)"
		[[ $algo != ring-rails ]] || grep -q 'ring-rails  SIMPLE         4  [-+0-9/]*%$' rows
	done
	gpuctl simulate allreduce -c h100-ib400 -n 1 -b 1M -e 1M --algo ring-rails --explain >rows
}

@test "simulate: a custom algorithm's thread blocks run side by side" {
	printf '%s\n' 'algorithm shift' 'collective custom' 'ranks 4' 'chunks 2' 'for r in 0..2' \
		'  copy r.in[0] -> (r + 1).out[0] channel 0' '  copy r.in[1] -> (r + 1).out[1] channel 1' end >shift.algo
	gpuctl plan custom --algo-file shift.algo >steps
	gpuctl simulate custom -c h100-ib400 --algo-file shift.algo -b 64M -e 64M --explain >told
	grep -q '^# custom nRanks 4' told
	# 64 MiB out of one GPU, at 369 GB/s, and 9 us besides
	awk '!/^#/ { exit !($6 > 185 && $6 < 215) }' told || fail "$(cat told)"
	refused 2 'is for custom, not allreduce' allreduce -c h100-ib400 --algo-file shift.algo
}

@test "simulate: the file of a built-in algorithm takes as long as it does, on a cluster, without one, and in blocks" {
	# messages of a file may go in two parts, each with the work of a message
	near() { awk -v a="$1" -v b="$2" -v m="$3" 'BEGIN { exit !(a > 0 && a < b * m) }' || fail "$1 is not $2"; }
	gpuctl plan allgather -n 8 --algo recursive-doubling --format text >rd.algo
	for c in l40s-pcie gh200-slingshot; do
		own=$(gpuctl simulate allgather -c $c -n 8 -b 64K -e 64K --algo recursive-doubling | awk '!/^#/ { print $6 }')
		file=$(gpuctl simulate allgather -c $c -b 64K -e 64K --algo-file rd.algo | awk '!/^#/ { print $6 }')
		near "$file" "$own" 1.1
	done
	own=$(gpuctl simulate allgather --latency 1ms -n 8 --bytes 64K --algo recursive-doubling | awk '$1 == "recursive-doubling" { print $2 }')
	file=$(gpuctl simulate allgather --latency 1ms --bytes 64K --algo-file rd.algo | awk '$1 == "recursive-doubling" { print $2 }')
	near "$file" "$own" 1.05
	gpuctl plan allreduce -n 8 --algo recursive-doubling --format text | sed 's/^collective allreduce/collective custom/' >custom.algo
	own=$(gpuctl simulate allreduce -c l40s-pcie -n 8 -b 1K -e 1K --algo recursive-doubling | awk '!/^#/ { print $6 }')
	file=$(gpuctl simulate custom -c l40s-pcie -b 1K -e 1K --algo-file custom.algo | awk '!/^#/ { print $6 }')
	near "$file" "$own" 1.1
	run -2 gpuctl simulate custom --latency 1ms --algo-file custom.algo
	assert_match '--simulate: a custom algorithm needs --cluster'
}
