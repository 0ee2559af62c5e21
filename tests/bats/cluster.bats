# Clusters that are not here: gpuctl simulate --cluster, and a cluster file of the devices here.
load helper

setup() { house_setup; }
teardown() { house_teardown; }

@test "simulate prints nccl-tests' table, followed by NCCL's choice" {
	gpuctl simulate allreduce --cluster h100-ib400 --gpus 16 -b 8 -e 16G -f 2 >table
	grep -v '^#' table >rows
	[[ $(wc -l <rows) -eq 32 ]]
	awk 'NF != 17 || $2 * 4 != $1 || $3 != "float" || $4 != "sum" || $5 != -1 || $6 <= 0 { exit 1 }' rows
	awk '{ bw = $1 / 1000 / $6; d = bw - $7 } d * d > 1e-3 * bw * bw + 1e-4 { exit 1 }' rows
	tail -n 1 rows | grep -q 'NVLSTREE  SIMPLE'
	head -n 1 rows | grep -q 'LL         1  [-+0-9/]*%$'
	gpuctl simulate all_reduce -c h100-ib400 -n 16 -b 1M -e 1M --algo ring --proto simple --channels 4 | grep -q 'RING  SIMPLE         4  [-+0-9/]*%$'
}

@test "simulate: every collective, JSON, explain; sizes are rounded as nccl-tests does" {
	for c in allreduce broadcast reduce allgather reducescatter reduce-scatter alltoall gather scatter sendrecv; do
		gpuctl simulate $c -c gh200-slingshot -n 8 -b 1K -e 1M -f 32 --json | grep -q '"collective":"'
	done
	gpuctl simulate allgather -c gh200-slingshot -n 8 -b 1000 -e 1000 | grep -v '^#' | grep -qE '^ +896 +28 '
	gpuctl simulate alltoall -c h100-ib400 -n 64 -b 1G -e 1G --explain | grep -q 'go through the NICs of a node'
}

@test "simulate refuses in one line" {
	refused() { # STATUS TEXT ARG...
		run -"$1" gpuctl simulate "${@:3}"
		[[ $output == *"$2"* && ${#lines[@]} -eq 1 ]] || fail "$output"
	}
	refused 2 "'nowhere' is not one of the built-in clusters" allreduce -c nowhere
	refused 2 "the cluster has 2" allreduce -c two-cores -n 3
	refused 2 "must be allreduce" allrebuke -c two-cores
	refused 2 "is not an algorithm of allreduce" allreduce -c two-cores --algo rings
	refused 2 "not on 2 GPUs" allreduce -c two-cores --algo nvls
	refused 2 "sizes are set by -b" allreduce -c two-cores --bytes 3
	refused 2 "need --cluster" allreduce -n 4 --explain
	echo 'gpu = h1000' >bad.ini
	refused 2 "bad.ini:1: gpu: 'h1000': must be one of" allreduce -c bad.ini
	refused 1 "missing.ini" allreduce -c ./missing.ini
}

@test "every built-in cluster works; folders of GPUSIM_CLUSTERS come first" {
	for f in "$ROOT"/examples/clusters/*.ini; do
		gpuctl simulate allreduce -c "$(basename "$f" .ini)" -b 1M -e 1M >/dev/null
	done
	mkdir own && printf 'gpu = h100\nhosts = 1\n' >own/two-cores.ini
	GPUSIM_CLUSTERS=/nowhere:$T/own gpuctl simulate allreduce -c two-cores -n 8 -b 8 -e 8 | grep -q h100
}

@test "tune --cluster writes a file that simulate reads" {
	gpuctl run -n 2 -- gpuctl tune --cluster --iters 5 >mine.ini
	gpuctl simulate allreduce -c mine.ini -b 8 -e 8 | grep -q SIMPLE
}

@test "predicted times are as near to the measured ones as they were" {
	data=$ROOT/tests/data/clusters
	"$BUILD/clusters/validate" -l "$data/limits" "$data" >table || fail "$(cat table)"
	grep -q '^median over tables' table
}

@test "simulate --fit fits a cluster file to tables of nccl-tests, predicts with it, and names what is degraded" {
	local new='network share = 0.4'
	printf 'gpu = h100\nhosts = 4\nnics = 8 x 400Gb/s ib\n' >asked.ini
	(cat asked.ini; printf '%s\n' "$new" 'launch = 15us') >real.ini
	gpuctl simulate allreduce -c ./real.ini -n 8 -b 1K -e 4G -f 4 >all_reduce_8.txt
	gpuctl simulate allgather -c ./real.ini -n 32 -b 1K -e 4G -f 4 | sed 's/^/[1,0]<stdout>: /' >all_gather_32.txt
	gpuctl simulate --fit all_reduce_8.txt all_gather_32.txt -c ./asked.ini -o fitted.ini >report
	grep -qE '^  network share +0.96 +0.(39|4|41)' report
	grep -q '^  message .* these tables do not determine it' report
	grep -q 'all_gather_32.txt: from 16 MiB 2.* times slower than this cluster should be: check the NICs' report
	real=$(gpuctl simulate reducescatter -c ./real.ini -n 16 -b 256M -e 256M | awk '!/^#/ { print $6 }')
	fitted=$(gpuctl simulate reducescatter -c ./fitted.ini -n 16 -b 256M -e 256M | awk '!/^#/ { print $6 }')
	awk -v a="$real" -v b="$fitted" 'BEGIN { exit !(b > a * 0.95 && b < a * 1.05) }' || fail "$fitted is not $real"
	gpuctl simulate --fit all_reduce_8.txt -c ./asked.ini --json | grep -q '"one_number":true'
	head -c 5000 /dev/urandom >noise
	for f in noise /dev/null; do
		run -5 gpuctl simulate --fit $f -c ./asked.ini
		assert_equal "${#lines[@]}" 1
	done
	run -2 gpuctl simulate --fit all_reduce_8.txt
	assert_match '--fit: needs --cluster'
	run -2 gpuctl simulate --fit all_reduce_8.txt -c ./asked.ini --algo ring
	run -2 gpuctl simulate allreduce allgather -c ./asked.ini
}

@test "simulate: each prediction has an error bar, and --explain what no algorithm is faster than" {
	gpuctl simulate alltoall -c h100-ib400 -n 64 -b 1G -e 1G --explain >out
	grep -qE ' -[0-9]+/\+[0-9]+%$' out
	grep -q 'at least [0-9.]* us: .* bytes must cross' out
	gpuctl simulate allreduce -c h100-ib400 -n 16 -b 1G -e 1G --json | grep -q '"time_low_us":.*"time_high_us":.*"bound_us":'
}

@test "simulate: a wrong algorithm or network is answered with all that there are" {
	run -2 gpuctl simulate allreduce -c h100-ib400 --algo naiv
	for name in ring tree nvlstree ring-rails tree-rails ring-hierarchical naive halving-doubling; do
		assert_match "[ ,]$name(,|\$)"
		gpuctl simulate allreduce -c h100-ib400 -n 64 -b 1K -e 1K --algo $name >/dev/null
	done
	printf 'gpu = h100\nhosts = 2\nnics = 8 x 400Gb/s infiniband\n' >wrong.ini
	run -2 gpuctl simulate allreduce -c ./wrong.ini
	assert_match "'infiniband': must be one of ib, roce, .*, none\$"
}
