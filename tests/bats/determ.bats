# The same bits everywhere: deterministic collectives, checksums of vectors, wrong bits found.
# shellcheck disable=SC2016,SC2030,SC2031
load helper

# vectors N COUNT - that many vectors of f32 whose sum depends on its order
vectors() {
	awk -v n="$1" -v count="$2" 'BEGIN {
		srand(7)
		for (i = 0; i < n; i++)
			for (k = 0; k < count; k++)
				printf "%.7g%s", (rand() - 0.5) * 10 ^ int(rand() * 9), k + 1 < count ? " " : "\n"
	}'
}

# machine N [OPTION...] SCRIPT - run a bash script with N devices. In it:
#	sum COLL [OPT...]	the digest of the collective's results, deterministic, of the vectors in `in`
machine() {
	bounded gpuctl run -n "$1" "${@:2:$#-2}" -- bash -c '
		sum() { gpuctl "$1" --type f32 --deterministic --all "${@:2}" <in | sha256sum | cut -c1-64; }
		'"${*: -1}"
}

@test "one digest by every transport, algorithm and size of messages; what cannot is refused" {
	vectors 5 1003 >in
	local all='sum allreduce
		for algo in pairwise naive; do
			for chunk in 4 252 1M; do sum allreduce --algo $algo --chunk $chunk; done
		done
		gpuctl reduce --type f32 --deterministic --root 3 <in | for i in 1 2 3 4 5; do
			read -r line; [ $i -gt 1 ] || for k in 1 2 3 4 5; do echo "$line"; done
		done | sha256sum | cut -c1-64'
	for sockets in '' ipc tcp; do
		machine 5 ${sockets:+--transport $sockets} "$all" >>out
	done
	machine 5 'sum allreduce --algo twoshot; sum allreduce --algo oneshot --chunk 64
		sum allreduce --on-failure respawn; GPUSIM_DETERMINISTIC=1 gpuctl allreduce --type f32 --all <in | sha256sum | cut -c1-64' >>out
	[ "$(wc -l <out)" = 28 ]
	run sort -u out
	assert_match '^[0-9a-f]{64}$'
	run machine 5 'for a in ring tree halving-doubling recursive-doubling ring-chunked; do
		gpuctl allreduce --type f32 --deterministic --algo $a <in; echo "$?"; done
		sum reduce --algo ring; gpuctl allreduce --type f32 --algo ring <in >/dev/null && echo good
		echo 1 | gpuctl allreduce -n 1 --deterministic --algo ring'
	assert_match 'allreduce ring: .*cannot be deterministic; these can: naive, twoshot, oneshot, pairwise'
	[ "$(grep -c '^2$' <<<"$output")" = 5 ]
	assert_match 'reduce ring: .*these can: naive'
	assert_match 'good'
}

# Digests of a machine of x86-64; the vectors are the same in every awk.
@test "each algorithm has the same bits on every processor" {
	awk 'BEGIN {
		for (r = 0; r < 4; r++)
			for (k = 0; k < 1003; k++)
				printf "%.7g%s", ((k * 7919 + r * 104729) % 10007 - 5000) / 97 * 10 ^ (k % 7), k < 1002 ? " " : "\n"
	}' >in
	machine 4 'for algo in ring ring-chunked halving-doubling recursive-doubling tree pairwise twoshot; do
			echo $algo $(gpuctl allreduce --type f32 --algo $algo --chunk 500 --all <in | cksum) $(
				gpuctl allreduce --type bf16 --algo $algo --chunk 500 --all <in | cksum)
		done' >out
	diff out - <<-'END'
		ring 2507545747 38724 2497464997 26256
		ring-chunked 189590476 38808 2497464997 26256
		halving-doubling 823325927 39060 2497464997 26256
		recursive-doubling 1332750592 38624 2497464997 26256
		tree 1154526228 38644 2497464997 26256
		pairwise 3066661746 38704 2497464997 26256
		twoshot 3851975256 38808 2497464997 26256
	END
}

@test "short floats, reductions and parts of a vector too, in place and out of it" {
	vectors 4 331 >in
	machine 4 'list=()
		for t in f16 bf16 f8e5m2 f64; do
			for op in sum prod max avg; do
				for algo in pairwise twoshot naive; do
					echo "$t $op $(gpuctl allreduce --type $t --op $op --deterministic --algo $algo --chunk 100 <in | sha256sum)"
				done
			done
		done
		for algo in pairwise naive auto; do
			echo "parts $(gpuctl reduce-scatter --type f32 --deterministic --algo $algo --chunk 60 <in | sha256sum)"
		done
		c=$(gpuctl comm-init -n 4)
		for r in 0 1 2 3; do
			in[r]=$(gpuctl malloc --comm $c --rank $r 4K) out[r]=$(gpuctl malloc --comm $c --rank $r 4K)
			head -c 4000 /dev/urandom >bytes.$r
			gpuctl memcpy bytes.$r "$r:${in[r]}"
		done
		I=$(IFS=,; echo "${in[*]}") O=$(IFS=,; echo "${out[*]}")
		gpuctl allreduce --comm $c --send $I --recv $O --count 1000 --type f32 --deterministic
		gpuctl allreduce --comm $c --addr $I --count 1000 --type f32 --deterministic
		gpuctl checksum --comm $c --addr $I --count 1000 --type f32 | sed "s/^rank .* /place /"
		gpuctl checksum --comm $c --addr $O --count 1000 --type f32 | sed "s/^rank .* /place /"' >out
	run bash -c 'sort -u out | wc -l'
	assert_output '18'
}

@test "a rank that is started again gives the same bits" {
	vectors 3 2000 >in
	machine 3 'sum allreduce' >want
	machine 3 --allow-inject --on-failure respawn 'gpuctl inject kill device=1 at=allreduce#0.step2; sum allreduce' >got
	cmp want got
}

@test "checksum: a line a rank, and the first element that differs" {
	run machine 3 'c=$(gpuctl comm-init -n 3)
		for r in 0 1 2; do
			a[r]=$(gpuctl malloc --comm $c --rank $r 1M)
			gpuctl memset --comm $c --rank $r "${a[r]}" 49 1M
		done
		A=$(IFS=,; echo "${a[*]}")
		gpuctl checksum --comm $c --addr $A --count 1048576 --type u8
		echo same
		printf 123456789 | gpuctl memcpy - "2:${a[2]}"
		gpuctl checksum --comm $c --addr "0,0,${a[2]}" --count 9 --type u8
		gpuctl memset --comm $c --rank 2 "${a[2]}" 49 9
		gpuctl memset --comm $c --rank 1 $((a[1] + 400008)) 7 1
		gpuctl checksum --comm $c --addr $A --count 262144 --type i32; echo "exit $?"
		gpuctl checksum --comm $c --addr $A --count 262144 --type i32 --json
		gpuctl checksum --comm $c --addr $A --count 1000000000 --type i32; echo "exit $?"'
	assert_match 'same'
	assert_match 'rank 2    995dc9bbdf1939fa'
	assert_match 'rank 1    [0-9a-f]{16}  differs first in element 100002: 825307399, not 825307441'
	assert_match 'comm 1: rank 1 has different bits from most ranks'
	assert_match 'exit 1'
	assert_match '"rank":1,.*"first_difference":100002'
	assert_match 'exit 2'
}

@test "--verify: right results pass, and a flipped bit is found and its rank named" {
	vectors 4 500 >in
	run machine 4 --allow-inject 'c=$(gpuctl comm-init -n 4)
		for t in f32 f64 bf16; do
			for op in sum max avg prod; do
				gpuctl allreduce --comm $c --type $t --op $op --verify <in >/dev/null || echo "wrong $t $op"
				gpuctl allreduce --comm $c --type $t --op $op --verify --algo ring <in >/dev/null || echo "wrong ring $t $op"
			done
		done
		gpuctl reduce --comm $c --type f32 --root 2 --verify <in >/dev/null &&
			gpuctl reduce-scatter --comm $c --type f32 --verify --op premulsum --scalar 2,3,4,5 <in >/dev/null && echo right
		for point in step1 end; do
			gpuctl inject --comm $c flip rank=2 at=any#next.$point seed=5
			gpuctl allreduce --comm $c --type f32 --verify <in >/dev/null; echo "exit $?"
		done
		gpuctl inject --comm $c flip rank=1 at=any#next.step5
		gpuctl allreduce --comm $c --type f32 --verify --algo pairwise <in >/dev/null; echo "exit $?"
		gpuctl inject --comm $c flip rank=3 at=any#next.step3
		gpuctl allreduce --comm $c --type f32 --verify --algo ring <in >/dev/null; echo "exit $?"
		gpuctl inject --comm $c flip rank=1 at=any#next.end
		gpuctl reduce-scatter --comm $c --type f32 --verify <in >/dev/null; echo "exit $?"
		gpuctl inject --comm $c flip rank=1
		gpuctl inject --comm $c kill rank=1 at=any#next.end
		true'
	[[ $output != *'wrong '[fb]* && $output != *'wrong ring'* ]] || fail "$output"
	assert_match 'right'
	assert_match 'verify: rank 2 \(device [0-9a-f]{16}\) is faulty: element [0-9]+ of its input is [^ ]+, not [^ ]+'
	assert_match 'verify: rank 2 \(device [0-9a-f]{16}\) is faulty: element [0-9]+ of its result is'
	assert_match 'verify: rank 1 \(device [0-9a-f]{16}\) is faulty: element [0-9]+ of its part, which it reduced for all, is'
	assert_match 'verify: rank 1 \(device [0-9a-f]{16}\) is faulty: element [0-9]+ of its result is'
	[ "$(grep -c '^exit 5$' <<<"$output")" = 5 ]
	assert_match 'flip needs at='
	assert_match 'kill happens before a step, not at the end'
}

@test "--verify of f8 by algorithms that add in their own order; a rank alone; what a flip did" {
	perl -e 'srand 5; print join(" ", map { sprintf "%.3g", rand(16) - 8 } 1 .. 60), "\n" for 1 .. 4' >in
	head -1 in >one
	run machine 4 --allow-inject 'c=$(gpuctl comm-init -n 4)
		for t in f8e4m3 f8e5m2; do
			for algo in ring tree recursive-doubling; do
				for op in sum avg prod "premulsum --scalar 2"; do
					gpuctl allreduce --comm $c --type $t --op $op --verify --algo $algo <in >/dev/null || echo "wrong $t $algo $op"
				done
			done
			for algo in ring tree; do
				for seed in 3 5 6 7 8 12; do
					gpuctl inject --comm $c flip rank=2 at=any#next.end seed=$seed
					gpuctl reduce --root 2 --comm $c --type $t --verify --algo $algo <in >/dev/null && echo "missed $t $algo $seed"
				done
			done
		done
		gpuctl reduce-scatterv --comm $c --type f32 --counts 13,0,40,7 --verify <in >/dev/null || echo "wrong parts"
		gpuctl inject --comm $c flip rank=2 at=any#next.end
		gpuctl reduce-scatterv --comm $c --type f32 --counts 13,0,40,7 --verify <in >/dev/null && echo "missed part"
		gpuctl inject --comm $c flip rank=1 at=any#next.end
		gpuctl reduce --comm $c --root 2 --verify <in >/dev/null && gpuctl inject list
		gpuctl comm-destroy $c
		for op in sum avg min "premulsum --scalar 2"; do
			gpuctl allreduce --type f16 --op $op --verify <one >/dev/null || echo "accused $op"
		done
		echo done'
	[[ $output != *'wrong '* && $output != *missed* && $output != *accused* ]] || fail "$output"
	assert_match 'inject: flip at reduce#[0-9]+.end, ring, communicator 1, rank 2, element [0-9]+: was [^ ]+, is [^ ]+'
	assert_match 'inject: flip at reduce#[0-9]+.end, .*, rank 1: not done: the rank has no result'
	assert_match ': 25 faults took place'
	[ "$(grep -c ': 0 faults took place' <<<"$output")" = 4 ]
	assert_match 'done'
}
