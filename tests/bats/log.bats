#!/usr/bin/env bats
# Lines of the log: levels, subsystems, files.
load helper

setup() {
	house_setup
	printf '1 2 3\n4 5 6\n' >v
}

sum() { bounded gpuctl run -n 2 -- gpuctl allreduce --type i32 <v; }

line='comm 1 rank [01] of 2: allreduce #0 [a-z-]+, 3 i32, 12 bytes, [0-9.]+ us$'

@test "GPUSIM_DEBUG: a line for each operation at debug, or at info of COLL" {
	GPUSIM_DEBUG=debug sum 2>all.log
	GPUSIM_DEBUG=INFO sum 2>info.log
	GPUSIM_DEBUG=info GPUSIM_DEBUG_SUBSYS=NET,COLL sum 2>coll.log
	GPUSIM_DEBUG=debug GPUSIM_DEBUG_SUBSYS=^coll sum 2>else.log
	assert_equal "$(grep -cE "^gpudev: $line" all.log)" 2
	assert_equal "$(grep -cE "$line" info.log)" 0
	assert_equal "$(grep -cE "^gpudev: $line" coll.log)" 2
	assert_equal "$(grep -cE "$line" else.log)" 0
	grep -q '^gpucoord: ready at' info.log
	not grep -q '^gpucoord: ready at' coll.log
	grep -q '^gpucoord: ready at' else.log
	grep -q '^gpuctl: GPUSIM_DEBUG_SUBSYS is ^coll' else.log
	not grep -q 'GPUSIM_DEBUG is' info.log
}

@test "GPUSIM_DEBUG=trace: a line for each request; GPUSIM_DEBUG_SUBSYS picks" {
	GPUSIM_DEBUG=trace sum 2>all.log
	GPUSIM_DEBUG=trace GPUSIM_DEBUG_SUBSYS=ALLOC sum 2>alloc.log
	grep -Eq '^gpucoord: request submit #[0-9]+ of client [0-9a-f]{16}$' all.log
	grep -Eq '^gpudev: request run #' all.log
	grep -q '^gpudev: request malloc #' alloc.log
	assert_equal "$(grep -Evc 'request (malloc|free) ' alloc.log)" 0
	GPUSIM_DEBUG=debug sum 2>less.log
	not grep -q 'request ' less.log
}

@test "GPUSIM_DEBUG: NCCL's words; VERSION is a line and no warnings" {
	GPUSIM_DEBUG=VERSION run bounded gpuctl params
	assert_match "^gpuctl: version $(gpuctl version | cut -d ' ' -f 2)"
	GPUSIM_DEBUG=none run bounded gpuctl --coordinator "ipc://$T/none" status
	assert_status 3
	assert_equal "${#lines[@]}" 1
	GPUSIM_DEBUG=warn run bounded gpuctl version
	assert_equal "${#lines[@]}" 1
}

@test "GPUSIM_DEBUG_FILE: a file for each process, with time, host, process and subsystem" {
	GPUSIM_DEBUG=info GPUSIM_DEBUG_SUBSYS=COLL,INIT GPUSIM_DEBUG_FILE=$T/log.%h.%p sum 2>err
	[ ! -s err ]
	assert_equal "$(cat "log.$(hostname | cut -d . -f 1)."* | grep -cE "^[-0-9]+ [:0-9]+\.[0-9]{6} [^ :]+:[0-9]+ gpudev info COLL: $line")" 2
	for file in log.*; do
		assert_equal "$(head -n 1 "$file" | cut -d ' ' -f 3 | cut -d : -f 2)" "${file##*.}"
	done
}

@test "GPUSIM_DEBUG_FILE: processes share a file; a failure is on standard error, too; without a level there is no file" {
	GPUSIM_DEBUG=info GPUSIM_DEBUG_SUBSYS=ALL GPUSIM_DEBUG_FILE=$T/all sum
	assert_equal "$(cut -d ' ' -f 4 all | sort -u | xargs)" 'gpucoord gpuctl gpudev'
	GPUSIM_DEBUG=info GPUSIM_DEBUG_FILE=$T/all run bounded gpuctl --coordinator "ipc://$T/none" status
	assert_status 3
	assert_match '^gpuctl: status: '
	tail -n 1 all | grep -q 'gpuctl error: status: '
	GPUSIM_DEBUG_FILE=$T/none sum
	refute_file none
}

@test "a wrong level, subsystem or file is refused by every program with one sentence" {
	for program in gpuctl gpudev gpucoord mnist-train; do
		GPUSIM_DEBUG=lots run bounded $program
		assert_status 2
		assert_output "$program: GPUSIM_DEBUG: 'lots': must be one of error, version, warn, info, debug, trace"
		GPUSIM_DEBUG_SUBSYS=NET,XNET run bounded $program
		assert_status 2
		assert_output "$program: GPUSIM_DEBUG_SUBSYS: 'XNET': must be one of INIT, COLL, P2P, SHM, NET, GRAPH, TUNING, ENV, ALLOC, CALL, PROXY, NVLS, BOOTSTRAP, REG, PROFILE, RAS, ALL"
		GPUSIM_DEBUG=warn GPUSIM_DEBUG_FILE=$T/none/log run bounded $program
		assert_status 2
		assert_output "$program: GPUSIM_DEBUG_FILE: $T/none/log: No such file or directory"
	done
}
