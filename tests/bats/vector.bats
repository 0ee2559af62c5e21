# The v-variants: a count for each rank, as filters and on buffers.
# shellcheck disable=SC2016
load helper

# machine N [OPTION...] SCRIPT - run a bash script with N devices
machine() { bounded gpuctl run -n "$1" "${@:2:$#-2}" -- bash -c "${*: -1}"; }

@test "vectors and parts of any length, zero too" {
	printf '1 0 3\n2 2 0\n0 5 1\n' >matrix
	run machine 3 'ragged() { printf "1 2\n\n3 4 5\n"; }; six() { echo 1 2 3 4 5 6; }
		three() { printf "0 1 2 3\n10 11 12 13\n20 21 22 23 24 25\n"; }
		ragged | gpuctl allgatherv; ragged | gpuctl gatherv --root 2 --type i8
		ragged | gpuctl allgatherv --counts 2,0,3 --algo bruck --all
		six | gpuctl scatterv --counts 1,0,5 --root 1 --algo tree
		printf "1 2 3\n10 20 30\n100 200 300\n" | gpuctl reduce-scatterv --counts "0 2 1" --op max
		three | gpuctl alltoallv --counts matrix
		three | gpuctl alltoallv --counts "1,0,3;2,2,0;0,5,1" --type u8 | cksum
		three | gpuctl alltoallv --counts matrix --type u8 | cksum'
	assert_status 0
	assert_output '1 2 3 4 5
1 2 3 4 5
1 2 3 4 5
1 2 3 4 5
1 2 3 4 5
1

2 3 4 5 6

100 200
300
0 10 11
12 13 20 21 22 23 24
1 2 3 25
3870294057 38
3870294057 38'
}

@test "raw vectors are cut by the counts" {
	run machine 3 'printf abcdef | gpuctl scatterv --raw u8 --counts 1,2,3
		printf abcdef | gpuctl allgatherv --raw u8 --counts 1,2,3 --all
		printf abcdef | gpuctl alltoallv --raw u8 --counts 0,1,1,1,0,1,1,1,0'
	assert_status 0
	assert_output 'abcdefabcdefabcdefabcdefceafbd'
}

@test "buffers with displacements: parts go where they belong, and gaps stay" {
	run machine 3 'C=$(gpuctl comm-init -n 3)
		for r in 0 1 2; do
			addr[r]=$(gpuctl malloc --comm $C --rank $r 256)
			printf "\\1\\2\\3\\4\\5\\6\\7\\10" | gpuctl memcpy --comm $C - $r:${addr[r]}:8
			to[r]=$((addr[r] + 128))
		done
		A=${addr[0]},${addr[1]},${addr[2]} T=${to[0]},${to[1]},${to[2]}
		show() { gpuctl memcpy --comm $C 1:$1:8 - | od -An -tu1; }
		gpuctl alltoallv --comm $C --send $A --recv $T --type u8 --counts "1,0,3;2,2,0;0,5,1" \
			--displs "7,0,0;0,3,0;0,2,0" --recv-displs "0,1,0;0,6,1;0,0,3"
		show ${to[1]}
		gpuctl allgatherv --comm $C --send $A --recv $T --type u8 --counts 1,2,1 --displs 7,0,4
		show ${to[1]}
		echo "gatherv --root 1 --send $A --recv 0,${to[1]},0 --type u8 --counts 3,0,1" | gpuctl group --comm $C
		show ${to[1]}'
	assert_status 0
	assert_output '   0   3   4   5   6   7   4   5
   1   2   4   5   1   7   4   1
   1   2   3   1   1   7   4   1'
}

@test "counts that do not fit are refused with a reason" {
	run machine 2 'try() { echo "$*"; gpuctl "$@"; echo "$?"; }; exec 2>&1
		printf "1 2\n3\n" | try allgatherv --counts 2,2
		printf "1 2\n3\n" | try allgatherv --counts 2,1,0
		printf "1 2\n3\n" | try reduce-scatterv
		printf "1 2\n3\n" | try alltoallv --counts 1,2,3
		printf "1 2\n3\n" | try alltoallv --counts 1,1,1,0 --algo bruck
		echo 1 2 | try scatterv --counts 18446744073709551615,3
		printf abc | try scatterv --counts 1,1 --raw u8
		echo 1 | try scatterv --counts 1,x
		echo 1 | try scatterv --counts 1,0 --displs 0,1
		echo 1 | try scatterv --counts 1,0 -n 3'
	assert_status 0
	assert_output 'allgatherv --counts 2,2
gpuctl: allgatherv: line 2: 1 elements, but --counts expect 2
5
allgatherv --counts 2,1,0
gpuctl: allgatherv: 2 vectors, but --counts are for 3 ranks
5
reduce-scatterv
gpuctl: reduce-scatterv: --counts N,... is missing
2
alltoallv --counts 1,2,3
gpuctl: alltoallv: --counts: 3 numbers are not a square matrix
2
alltoallv --counts 1,1,1,0 --algo bruck
gpuctl: alltoallv: rank 0 operation 0: alltoall: algorithm bruck does not accept counts; pairwise does
2
scatterv --counts 18446744073709551615,3
gpuctl: scatterv: line 1: 2 elements, but --counts expect 18446744073709551615
5
scatterv --counts 1,1 --raw u8
gpuctl: scatterv: 3 bytes on standard input, but --counts expect 2
5
scatterv --counts 1,x
gpuctl: scatterv: --counts: 1,x: not a list of numbers, and no such file: No such file or directory
1
scatterv --counts 1,0 --displs 0,1
gpuctl: scatterv: --displs: needs --addr, or --send and --recv
2
scatterv --counts 1,0 -n 3
gpuctl: scatterv: --counts: for 2 ranks, but -n is 3
2'
}

quietly() { "$@" 2>/dev/null; }

@test "a device that dies in mid-operation: respawn continues with all vectors, shrink with those that are left" {
	run quietly machine 3 --allow-inject 'sums() { printf "1 2\n5\n3 4 6\n" | gpuctl "$@" 2>>notes; echo "$?"; }
		gpuctl inject kill device=1 at=allgather#next.step1
		sums allgatherv --on-failure respawn
		gpuctl inject kill device=2 at=alltoall#next.step1
		printf "1 2\n3 4\n5 6\n" | gpuctl alltoallv --counts 1,1,0,0,1,1,1,0,1 --on-failure respawn 2>>notes
		gpuctl inject kill device=1 at=allgather#next.step1
		sums allgatherv --on-failure shrink --algo naive
		grep -c note: notes'
	assert_status 0
	assert_output '1 2 5 3 4 6
0
1 5
2 3
4 6
1 2 3 4 6
0
3'
}
