# NCCL's calls: programs of tests/nccl over devices of their own.
load nccl

# says N PROGRAM ARG... TEXT - with N devices it ends well and says so
says() {
	run nccl "${@:1:$#-1}"
	assert_status 0
	[ "${lines[-1]}" = "${*: -1}" ] || { printf '%s\n' "$output" && false; }
}

@test "every collective with every type and operator, out of place and in place" {
	says 2 nccl_collectives '468 combinations'
	says 4 nccl_collectives '468 combinations'
	says 1 nccl_collectives '468 combinations'
}

@test "the same with odd ranks, and through sockets" {
	says 3 nccl_collectives '396 combinations'
	GPUSIM_P2P_DISABLE=1 says 4 nccl_collectives '468 combinations'
}

@test "groups: meshes with oneself, communicators and streams that mix, groups that fail, simulation" {
	says 4 nccl_groups 'groups are well'
	says 1 nccl_groups 'groups are well'
	GPUSIM_P2P_DISABLE=1 says 3 nccl_groups 'groups are well'
}

@test "premulsum of each rank's own scalar, on the host, on the device, pinned" {
	says 3 nccl_premulsum 'premulsum is well'
}

@test "split, shrink, grow; several ids, blocking=0, a rank that never comes" {
	says 4 nccl_split 'communicators are well'
	says 2 nccl_split 'communicators are well'
}

@test "wrong arguments have a result and a sentence" {
	says 3 nccl_arguments 'arguments are checked'
}

@test "4 bytes and different roots are an error of every rank, by memory and through sockets" {
	says 2 nccl_roots 'roots are compared'
	says 4 nccl_roots 'roots are compared'
	GPUSIM_P2P_DISABLE=1 says 2 nccl_roots 'roots are compared'
	GPUSIM_P2P_DISABLE=1 says 4 nccl_roots 'roots are compared'
}

@test "graphs: what was captured runs at each launch, in order with calls" {
	says 1 nccl_graph 'graphs are well'
	says 3 nccl_graph 'graphs are well'
	GPUSIM_P2P_DISABLE=1 says 2 nccl_graph 'graphs are well'
}

@test "windows, put and signal" {
	says 3 nccl_signal 'signals are well'
	GPUSIM_P2P_DISABLE=1 says 2 nccl_signal 'signals are well'
}

@test "abort and revoke end what cannot end, and nothing else" {
	says 2 nccl_revoke abort well
	says 3 nccl_revoke revoke well
}

@test "ranks in processes; some return from main without a word" {
	says 3 nccl_process all 'all: as it should be'
	says 3 nccl_process leave 'leave: as it should be'
}

@test "a rank's process that dies or aborts is an error of the others within seconds" {
	says 3 nccl_process kill 'kill: as it should be'
	says 3 nccl_process exit 'exit: as it should be'
	says 2 nccl_process abort 'abort: as it should be'
	says 3 nccl_process mismatch 'mismatch: as it should be'
}

@test "a device that is killed is ncclRemoteError on the other ranks, long before a heartbeat is missing" {
	local way i
	run nccl 3 nccl_killed
	assert_status 0
	grep -qx killed <<<"$output" # gpuctl's line on the device may come after it
	for way in 0 1; do
		mkdir "$way"
		export GPUSIM_COORD=ipc://$T/$way/coord GPUSIM_P2P_DISABLE=$way
		ready "coord$way" gpucoord --listen "$GPUSIM_COORD" --heartbeat 200s --missed 3/3 --op-timeout 900s --comm-timeout 1800s \
			--state none
		for i in 0 1 2; do
			ready "dev$way$i" gpudev --listen "ipc://$T/$way/dev$i" --ordinal $i -m 64M
		done
		LD_LIBRARY_PATH=$NCCL_HOME_HERE/lib run bounded "$PROGRAMS/nccl_killed"
		assert_status 0
		assert_equal "${lines[-1]}" killed
	done
}

@test "NCCL_DEBUG: lines in NCCL's form, in a file for each process" {
	NCCL_DEBUG=INFO NCCL_DEBUG_FILE=$T/log.%p run nccl 2 nccl_premulsum
	assert_status 0
	grep -q '^NCCL version 2.27.7+cuda12.4$' log.*
	grep -Eq '^[^ :]+:[0-9]+:[0-9]+ \[1\] NCCL INFO ncclCommInitAll comm 0x[0-9a-f]+ rank 1 nranks 2 cudaDev 1 commId 0x[0-9a-f]+ - Init COMPLETE$' log.*
	not grep -q sendbuff log.*
	NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL run nccl 2 nccl_premulsum
	assert_match 'NCCL INFO AllReduce: sendbuff 0x[0-9a-f]+ recvbuff 0x[0-9a-f]+ count [0-9]+ datatype [0-9]+ op [0-9]+ root 0 comm 0x[0-9a-f]+ .nranks=2. stream '
	[[ $output != *'Init COMPLETE'* ]]
	NCCL_DEBUG=INFO NCCL_DEBUG_FILE=$T/none/log run nccl 1 nccl_premulsum
	assert_match "NCCL WARN NCCL_DEBUG_FILE : $T/none/log: No such file or directory; lines go to standard output"
	assert_match 'Init COMPLETE'
	NCCL_DEBUG=VERSION run nccl 1 nccl_premulsum
	assert_equal "${lines[0]}" 'NCCL version 2.27.7+cuda12.4'
	run nccl 1 nccl_premulsum
	assert_output 'premulsum is well'
}

@test "NCCL_ALGO, NCCL_TUNER_CONFIG_FILE: names of gpusim and of NCCL; a wrong one is reported" {
	NCCL_ALGO=Tree says 4 nccl_collectives '468 combinations'
	NCCL_ALGO='^NVLS,NVLSTree' says 2 nccl_premulsum 'premulsum is well'
	NCCL_ALGO=Rign run nccl 2 nccl_premulsum
	assert_status 0
	assert_match "NCCL WARN NCCL_ALGO : unknown algorithm 'rign'; available are allreduce:ring "
	printf 'allreduce,0,-1,ring,ll128,4,1,-1,-1,-1\n' >tuner
	NCCL_TUNER_CONFIG_FILE=$T/tuner says 4 nccl_groups 'groups are well'
	NCCL_TUNER_CONFIG_FILE=$T/none run nccl 2 nccl_premulsum
	assert_match 'NCCL_TUNER_CONFIG_FILE : .*none'
}

@test "GPUSIM_TIMEOUT bounds a wait for a rank that never comes, and the message names the missing ranks" {
	GPUSIM_TIMEOUT=1s run nccl 2 nccl_alone
	assert_status 0
	assert_match 'rank 1 of 2 has not joined while rank 0 waited for [0-9.]+s .GPUSIM_TIMEOUT.'
	# In one call: a second one would be logged, and take its own time.
	not grep -q 'has waited' <<<"$output"
	[ "$(sed -n 's/.* waited for \([0-9]*\)\.[0-9]*s (GPUSIM_TIMEOUT).*/\1/p' <<<"$output")" -ge 1 ]
}

@test "NCCL_P2P_DISABLE: run --nccl starts devices that share no memory" {
	NCCL_P2P_DISABLE=1 run bounded gpuctl run --nccl -n 2 -- gpuctl devices --json
	assert_status 0
	assert_match 'GPUSIM_P2P_DISABLE=1'
	NCCL_P2P_DISABLE=0 run bounded gpuctl run --nccl -n 2 -- gpuctl devices --json
	[[ $output != *GPUSIM_P2P_DISABLE* ]]
	NCCL_P2P_DISABLE=1 says 2 nccl_premulsum 'premulsum is well'
}
