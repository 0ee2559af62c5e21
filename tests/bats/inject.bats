# gpuctl inject: faults of devices, of the coordinator and of frames, now and at a step.
# shellcheck disable=SC2016,SC2030,SC2031
load helper

# rehearse N [OPTION...] SCRIPT - run a bash script with N devices that allow it, by sockets if
# GPUSIM_P2P_DISABLE says so. In it:
#	$c		a communicator over all of them
#	sum [OPT...]	an all-reduce of 64 Ki u32, all 1 at first; by the ring
#	uniform		every element of every rank, once if all are equal
#	try CMD...	run it, then print its exit status
rehearse() {
	LIMIT=50 bounded gpuctl run -n "$1" --allow-inject "${@:2:$#-2}" -- bash -c '
		n='"$1"' list=()
		c=$(gpuctl comm-init -n $n)
		for ((r = 0; r < n; r++)); do
			list+=("$(gpuctl malloc --comm $c --rank $r 256K)")
			gpuctl memset --comm $c --rank $r "${list[r]}" 1 256K
		done
		addr=$(IFS=,; echo "${list[*]}")
		sum() { gpuctl allreduce --comm $c --addr "$addr" --count 65536 --type u32 --algo ring "$@"; }
		uniform() {
			for ((r = 0; r < n; r++)); do
				gpuctl memcpy "$r:${list[r]}:256K" - | od -An -v -w4 -tx4
			done | sort -u | xargs
		}
		try() { "$@"; echo "exit $?"; }
		'"${*: -1}"
}

@test "a device is killed at a step, which the message names" {
	run rehearse 4 'sum; gpuctl inject kill rank=2 at=allreduce#1.step3; sum; try sum'
	assert_match 'gpudev: inject: kill at allreduce#1\.step3, ring, communicator 1, rank 2'
	assert_match 'allreduce: .*(operation |#)1.*rank 2 \(device [0-9a-f]{16}\)'
	assert_match 'exit [1-9]'
}

@test "a stopped device continues after its time, and so does its step" {
	run rehearse 3 'gpuctl inject stop rank=1 at=allreduce#next.step2 for=300ms; try sum; uniform'
	assert_match 'inject: stop at allreduce#0\.step2'
	assert_match 'exit 0'
	assert_match '03030303'
}

@test "one that stays stopped is named within the bound" {
	run rehearse 3 --op-timeout 6s '
		pid=$(gpuctl devices | awk "NR == 3 { print \$7 }")
		gpuctl inject stop rank=1 at=allreduce#0
		try sum
		kill -CONT "$pid"'
	assert_match 'inject: stop at allreduce#0\.step1'
	assert_match 'allreduce: .*rank 1 \(device'
	assert_match 'exit [1-9]'
}

@test "slowness is waited for" {
	run rehearse 3 'gpuctl inject slow rank=0 by=20ms count=4 at=any#0; sum; uniform; gpuctl inject list'
	assert_status 0
	assert_match '03030303'
	assert_match ': 1 fault took place'
	[[ $output != *slow* ]] || fail "still armed: $output"
}

@test "a frame that is damaged on its way is named, asked for again, and the sum is exact" {
	GPUSIM_P2P_DISABLE=1 run rehearse 4 '
		gpuctl inject corrupt rank=1 n=3 seed=5 at=allreduce#0.step2 corrupt rank=3 p=0.5 n=4 seed=7
		sum; uniform
		sum --chunk 4K; uniform
		gpuctl inject list'
	assert_status 0
	assert_match 'operation 0: chunk [0-9]+ from rank 1 \(device [0-9a-f]{16}\) arrived damaged'
	assert_match 'from rank 3 \(device [0-9a-f]{16}\) arrived damaged'
	assert_match $'\n04040404\n'
	assert_match $'\n10101010\n'
	assert_match ': 0 faults took place, 3 damaged frames arrived'
	assert_match ': 0 faults took place, 4 damaged frames arrived'
}

@test "frames that are lost are sent again" {
	GPUSIM_P2P_DISABLE=1 run rehearse 3 '
		gpuctl inject drop rank=1 n=2 at=allreduce#0 drop rank=2 n=1 peer=0; sum; uniform'
	assert_status 0
	assert_match 'inject: drop at allreduce#0\.step1'
	assert_match '03030303'
}

@test "a cut is mended, or ends in a line" {
	GPUSIM_P2P_DISABLE=1 run rehearse 3 --op-timeout 6s '
		sum; gpuctl inject cut rank=1; sum; uniform
		gpuctl inject cut rank=1 for=1m; try sum'
	assert_match '09090909'
	assert_match 'allreduce: .*rank [0-9] \(device [0-9a-f]{16}\).*(no progress|gave up|nothing from)'
	assert_match 'exit [1-9]'
}

@test "by memory there is no wire" {
	run rehearse 2 '
		try gpuctl inject corrupt rank=1
		try gpuctl inject drop rank=1 n=3 at=allreduce#next
		try gpuctl inject cut device=1 for=1s
		try gpuctl inject corrupt rank=0 at=send#next'
	assert_status 0
	assert_match 'inject: device [0-9a-f]{16}: reaches its peers by peer memory.*'$'\n''exit 2'
	assert_equal "$(grep -c 'peer memory' <<<"$output")" 4
}

@test "a damaged frame of a send is asked for again" {
	GPUSIM_P2P_DISABLE=1 run rehearse 2 '
		gpuctl inject corrupt rank=0 at=send#next
		a0=$(gpuctl malloc --comm $c --rank 0 1M) a1=$(gpuctl malloc --comm $c --rank 1 1M)
		gpuctl memset --comm $c --rank 0 $a0 7 1M
		printf "%s\n" "send --rank 0 --peer 1 --addr $a0 --count 1048576 --type u8" \
			"recv --rank 1 --peer 0 --addr $a1 --count 1048576 --type u8" | gpuctl group --comm $c
		gpuctl memcpy 1:$a1:1M - | od -An -v -w4 -tx4 | sort -u'
	assert_status 0
	assert_match 'from rank 0 \(device [0-9a-f]{16}\) arrived damaged'
	assert_match '07070707'
}

@test "the coordinator: slow, then killed" {
	run rehearse 2 '
		gpuctl inject slow coordinator by=1ms count=2; sum; gpuctl inject list
		try gpuctl inject kill coordinator at=allreduce#1
		try gpuctl inject drop coordinator
		gpuctl inject kill coordinator
		until ! gpuctl devices >/dev/null 2>&1; do :; done; try gpuctl --timeout 2s devices'
	assert_match 'coordinator: 1 fault took place'
	assert_match 'the coordinator: takes part in no collective; use at=now'
	assert_match 'the coordinator: has no peers; must be kill, stop or slow'
	assert_match 'gpucoord: inject: kill now'
	assert_match 'exit [34]'
}

@test "refused without --allow-inject" {
	run bounded gpuctl run -n 1 -- bash -c '
		gpuctl inject kill device=0; echo "exit $?"
		gpuctl inject kill coordinator; echo "exit $?"
		gpuctl inject list; echo "exit $?"; gpuctl devices | wc -l'
	assert_match 'inject: device [0-9a-f]{16}: does not accept faults: it was started without --allow-inject'
	assert_match 'inject: the coordinator: does not accept faults: it was started without --allow-inject'
	assert_equal "$(grep -c 'exit 2' <<<"$output")" 3
	assert_match $'\n2$'
}

@test "what is armed is listed and forgotten" {
	run rehearse 2 'gpuctl inject kill rank=1 at=broadcast#9 slow rank=1 by=1s at=gather#next.step7
		gpuctl inject list; gpuctl inject clear; echo cleared; gpuctl inject list'
	assert_status 0
	assert_match $'  kill at=broadcast#9\n  slow at=gather#next.step7 by=1000ms\n.*cleared'
	[[ ${output#*cleared} != *at=* ]] || fail "not forgotten: $output"
}

@test "wrong words: one line, exit 2" {
	run rehearse 2 '
		for words in bang kill "kill rank=1 rank=0" "kill rank=1 for=2s" "kill rank=1 who=me" \
			"slow rank=1" "kill rank=1 at=allreduce" "drop rank=0 p=2" "list all"; do
			gpuctl inject $words
			echo "exit $?"
		done
		try gpuctl inject kill rank=9
		gpuctl comm-destroy $c; try gpuctl inject kill rank=0 '
	assert_equal "$(grep -c '^gpuctl: inject: ' <<<"$output")" 11
	assert_equal "$(grep -c '^exit 2$' <<<"$output")" 10
	assert_match 'rank=: no communicator exists'
}

@test "chaos: devices die and freeze, and every result is right" {
	run bounded gpuctl run -n 3 --allow-inject -- \
		gpuctl chaos --seed 7 --ops 120 --kinds kill,stop,slow --rate 0.05/op --on-failure respawn
	assert_status 0
	assert_match 'seed 7, on failure respawn: 120 operations, .* 0 wrong, 0 stuck'
	assert_match 'faults: kill [1-9]'
	assert_match 'recoveries: [1-9]'
	assert_match $'\ncoordinator +[0-9]+ +[1-9][0-9]* +[1-9]'
}

@test "chaos: frames are lost and damaged on sockets" {
	GPUSIM_P2P_DISABLE=1 run bounded gpuctl run -n 3 --allow-inject -- \
		gpuctl chaos --seed 5 --ops 100 --kinds corrupt,drop,cut --rate 0.1/op --json
	assert_status 0
	assert_match '\{"seed":5,"on_failure":"abort","operations":100,"right":[0-9]+,"failed":[0-9]+,"wrong":0,"stuck":0,'
	assert_match 'arrived damaged'
	assert_match '"corrupt":[1-9]'
	assert_match '"daemons":\[\{"device":"0000000000000000","pid":\[[0-9]+,[0-9]+\]'
}

@test "chaos: the seed determines what happens" {
	local i
	for i in 1 2; do
		bounded gpuctl run -n 2 --allow-inject -- gpuctl chaos --seed 3 --ops 40 -v \
			--kinds slow,stop --rate 0.2/op 2>/dev/null | grep -E '^(operation|fault) [0-9]' >"plan.$i"
	done
	[[ $(grep -c ^operation plan.1) == 40 && $(grep -c ^fault plan.1) -ge 3 ]]
	cmp plan.1 plan.2
}

@test "chaos: refused without --allow-inject, wrong options" {
	run bounded gpuctl run -n 2 -- gpuctl chaos --ops 3
	assert_status 2
	assert_match 'chaos: the coordinator: does not accept faults: it was started without --allow-inject'
	run bounded gpuctl run -n 1 --allow-inject -- gpuctl chaos --ops 3
	assert_status 1
	assert_match 'chaos: needs at least 2 devices, not 1'
	for words in '--rate x' '--rate 1/h' '--kinds bang' '--kinds ,' '--ops 3 --for 3s' '-n 1' '--ops 0'; do
		# shellcheck disable=SC2086
		run bounded gpuctl chaos $words
		assert_status 2
		((${#lines[@]} == 1)) || fail "$output"
	done
}
