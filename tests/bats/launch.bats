# Launching as the field does: ranks that meet by an id, and machines that mpirun, Slurm and containers
# start. Programs that are not installed are skipped, and named.
load helper

setup() {
	house_setup
	EXAMPLES=$ROOT/examples DATA=$ROOT/tests/data
	unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE
	unset SLURM_PROCID SLURM_NTASKS SLURM_CONF
	unset GPUSIM_TLS_CERT GPUSIM_TLS_KEY GPUSIM_TLS_CA
}

# Processes that this test's Slurm has started have sessions of their own: their environment names the test.
ours() {
	grep -lzx "SLURM_CONF=$T/slurm/slurm.conf" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3
}

teardown() {
	local pid
	if [[ -e $T/slurm ]]; then
		for pid in $(ours); do # not those that are bats
			((pid == BASHPID)) || kill -KILL "$pid" 2>/dev/null || true
		done
	fi
	house_teardown
}

# ready NAME CMD... - a daemon in the background, ready; what it says is in NAME.log
ready() {
	local fd
	mkfifo "$1.ready"
	exec {fd}<>"$1.ready"
	background "${@:2}" -v -N 9 9>&"$fd" 2>"$1.log"
	read -r -t 20 -u "$fd" _ || fail "$1: $(cat "$1.log")"
	exec {fd}>&-
}

# machine N [OPTION OF gpucoord...] - a coordinator, and devices 0 to N - 1
machine() {
	export GPUSIM_COORD=ipc://$T/coord
	ready coord gpucoord --state "$T/state" "${@:2}"
	COORD=$PID
	for ((i = 0; i < $1; i++)); do
		ready "dev$i" gpudev --listen "ipc://$T/dev$i" --ordinal "$i" -m 16M --mem-scratch "$T/mem$i"
	done
}

# rank R N ID [OPTION...] - comm-init in the background; it prints to out.R, and err.R
rank() {
	background gpuctl --timeout 15s comm-init --id "$3" --rank "$1" --nranks "$2" "${@:4}" \
		>"out.$1" 2>"err.$1"
}

said() { [[ -s $1 ]]; }

# --- by an id

@test "unique-id: 32 hexadecimal digits, others each time, without a coordinator" {
	for i in 1 2 3; do gpuctl unique-id >>ids; done
	assert_equal "$(grep -cE '^[0-9a-f]{32}$' ids)" 3
	assert_equal "$(sort -u ids | wc -l)" 3
}

@test "comm-init --id: independent processes, each with its rank, make one communicator" {
	machine 3
	id=$(gpuctl unique-id)
	pids=()
	for r in 2 0 1; do
		rank $r 3 "$id"
		pids+=("$PID")
	done
	wait_until 15 gone "${pids[@]}"
	for r in 0 1 2; do assert_equal "$(cat out.$r err.$r)" 1; done
	assert_equal "$(seq 3 | gpuctl allreduce --comm 1)" 6
	run bounded gpuctl comm-init --id "$id" --rank 0 --nranks 3
	assert_status 2
	assert_output "gpuctl: comm-init: id $id: used up: it made communicator 1"
}

@test "comm-init --id: over the devices that the ranks name, and rank and number from the launcher" {
	machine 3
	id=$(gpuctl unique-id)
	rank 0 2 "$id" --device 2
	run bounded env PMI_RANK=1 PMI_SIZE=2 gpuctl comm-init --id "$id" --device 0
	assert_status 0
	assert_output 1
	assert_equal "$(gpuctl devices | awk 'NR > 1 { print $1, $6 }' | xargs)" '0 1 1 - 2 1'
	first=$(gpuctl devices | awk '$1 == 2 { print $2 }')
	gpuctl comm-status 1 --json | grep -q "\"devices\":\[\"$first\"" || fail "$(gpuctl comm-status 1 --json)"
	run bounded gpuctl comm-init --id "$(gpuctl unique-id)"
	assert_status 2
	assert_match 'the rank is missing: use --rank R, or run under mpirun or srun$'
	run bounded env SLURM_PROCID=first gpuctl comm-init --id "$(gpuctl unique-id)"
	assert_status 2
	assert_match "SLURM_PROCID: 'first' is not a whole number$"
	run bounded gpuctl comm-init --id 123 --rank 0 --nranks 1
	assert_status 2
	assert_match "'123' is not a unique id of 32 hexadecimal digits$"
	run bounded gpuctl comm-init -n 2 --rank 1
	assert_status 2
	assert_match '--rank, --nranks and --device: need --id$'
}

@test "comm-init --id: when one does not come, all end in time, and name it" {
	machine 3
	id=$(gpuctl unique-id)
	for r in 0 2; do
		background gpuctl --timeout 2s comm-init --id "$id" --rank $r --nranks 3 2>err.$r
		pids[r]=$PID
	done
	for r in 0 2; do
		status=0
		wait "${pids[r]}" || status=$?
		assert_equal "$status" 4
		[[ $(cat err.$r) =~ ^'gpuctl: comm-init: id '$id': rank 1 of 3 has not joined while rank '[02]' waited for '[0-9].[0-9]s$ ]] ||
			fail "$(cat err.$r)"
	done
}

# waits R ID TIMES - the coordinator has heard of the rank, so often
waits() { [[ $(grep -c "id $2: rank $1 has joined" coord.log) == "$3" ]]; }

@test "comm-init --id: one that is killed makes room, a coordinator that is killed loses nobody" {
	machine 3
	id=$(gpuctl unique-id)
	rank 0 3 "$id"
	victim=$PID
	wait_until 10 waits 0 "$id" 1
	rank 1 3 "$id"
	wait_until 10 waits 1 "$id" 1
	kill -KILL -- "-$victim"
	wait_until 10 gone "$victim"
	rank 0 3 "$id"
	first=$PID
	wait_until 10 waits 0 "$id" 2
	kill -KILL "$COORD"
	wait_until 10 gone "$COORD"
	rm coord.ready
	ready coord gpucoord --state "$T/state"
	rank 2 3 "$id"
	wait_until 15 said out.2 || fail "$(cat coord.log err.*)"
	wait_until 15 gone "$first" "$PID"
	assert_equal "$(cat out.0 out.1 out.2 | xargs)" '1 1 1'
	assert_equal "$(seq 3 | gpuctl allreduce --comm 1)" 6
}

# --- gpudev

@test "gpudev: its rank is the launcher's, or --rank, or --ordinal" {
	machine 0
	OMPI_COMM_WORLD_RANK=7 ready a gpudev --listen "ipc://$T/a" -m 16M --mem-scratch "$T/ma"
	SLURM_PROCID=5 ready b gpudev --listen "ipc://$T/b" -m 16M --mem-scratch "$T/mb"
	SLURM_PROCID=5 PMI_RANK=6 ready c gpudev --listen "ipc://$T/c" -m 16M --mem-scratch "$T/mc"
	SLURM_PROCID=x ready d gpudev --listen "ipc://$T/d" -m 16M --mem-scratch "$T/md" --rank 4
	assert_equal "$(gpuctl devices --json | grep -o '"ordinal":[0-9]*' | xargs)" \
		'ordinal:4 ordinal:5 ordinal:6 ordinal:7'
	SLURM_PROCID=-1 run bounded gpudev --listen "ipc://$T/e"
	assert_status 2
	assert_output "gpudev: SLURM_PROCID: -1 is out of range (0 to 4294967295)"
	run bounded gpudev --listen "ipc://$T/e" --rank one
	assert_status 2
	assert_output "gpudev: --rank: 'one' is not a whole number"
}

@test "gpudev --listen tcp://*:0: at the address that the coordinator sees" {
	exec {fd}< <(exec gpucoord --listen tcp://127.0.0.1:0 --state none --print-address 3>&-)
	BACKGROUND+=("$!")
	read -r -t 20 -u "$fd" address
	[[ $address =~ ^tcp://127\.0\.0\.1:[1-9][0-9]*$ ]] || fail "printed: $address"
	export GPUSIM_COORD=$address
	ready dev gpudev --listen 'tcp://*:0' -m 16M --mem-scratch "$T/mem"
	assert_equal "$(gpuctl devices | awk 'NR == 2 { print $NF }' | sed 's/:[0-9]*$//')" tcp://127.0.0.1
	run bounded gpudev --listen 'tcp://*:0' --coordinator tcp://10.255.255.1:7
	assert_status 2
	assert_match '^gpudev: tcp://.*:0 is reachable from other hosts'
	run bounded gpudev --listen 'tcp://*:0' --coordinator tcp://no-such-host.invalid:7
	assert_status 3
	assert_match '^gpudev: tcp://no-such-host.invalid:7: '
}

# apart N - hosts 1 to N, as far as the network goes, each a namespace that lives as long as its process
# HOST[n]; host n is 10.76.n.2 to host 0, who is 10.76.n.1 to it
apart() {
	namespaces
	for ((n = 0; n <= $1; n++)); do
		namespace
		HOST[n]=$PID
		((n)) || continue
		ip link add to1 netns "${HOST[n]}" type veth peer name "to$((n + 1))" netns "${HOST[0]}"
		on 0 ip addr add "10.76.$n.1/24" dev "to$((n + 1))"
		on 0 ip link set "to$((n + 1))" up
		on "$n" ip addr add "10.76.$n.2/24" dev to1
		on "$n" ip link set to1 up
		on "$n" ip route add default via "10.76.$n.1"
	done
	on 0 sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
}

on() { nsenter -t "${HOST[$1]}" -n "${@:2}"; } # HOST CMD...

@test "tcp://*:0 on hosts of a network: each device has its own address, and they reach each other" {
	apart 2
	export GPUSIM_COORD=tcp://10.76.1.1:7000 GPUSIM_P2P_DISABLE=1
	ready coord nsenter -t "${HOST[0]}" -n gpucoord --listen tcp://0.0.0.0:7000 --insecure --state none
	run on 1 gpudev --listen 'tcp://*:0' -m 16M
	assert_status 2
	assert_match '^gpudev: tcp://10\.76\.1\.2:0 is reachable from other hosts, unencrypted'
	for n in 1 2; do
		SLURM_PROCID=$n ready "dev$n" nsenter -t "${HOST[n]}" -n gpudev --listen 'tcp://*:0' --insecure \
			-m 16M --mem-scratch "$T/mem$n"
	done
	assert_equal "$(on 0 gpuctl devices | awk 'NR > 1 { print $NF }' | sed 's/:[0-9]*$//' | xargs)" \
		'tcp://10.76.1.2 tcp://10.76.2.2'
	assert_equal "$(seq 2 | on 0 gpuctl allreduce --algo ring)" 3
	assert_equal "$(seq 2 | on 2 gpuctl allreduce --algo ring)" 3
}

# --- training

TRAIN=(--algo ring --epochs 2 --batch 16 --layers "784,32,10" --seed 3)

# learnt FILE - the losses and accuracies of a --json file
learnt() { grep -oE '"(loss|test_accuracy)":[^,}]*' "$1"; }

# reference - the same training under gpuctl run with three devices, in `here`
reference() {
	bounded gpuctl run -n 3 --mem 64M -- mnist-train --data "$DATA" "${TRAIN[@]}" --json here >/dev/null
	assert_equal "$(learnt here | wc -l)" 4
}

# mpi MPIRUN - trains on three devices that it starts, and that leave no memory file
mpi() {
	MPIRUN=$1 run bounded "$EXAMPLES/mpirun.sh" -n 3 -m 64M -- bash -c '
		gpuctl devices --json | grep -o "\"mem_path\":\"[^\"]*" | cut -d \" -f 4 >files
		exec mnist-train "$@"' _ --data "$DATA" "${TRAIN[@]}" --json "$1.json"
	assert_status 0
	assert_equal "$(wc -l <files)" 3
	while read -r file; do refute_file "$file"; done <files
	assert_match '3 devices'
	assert_equal "$(learnt "$1.json")" "$(learnt here)"
}

@test "mpirun.sh: Open MPI and MPICH start the devices, and they learn what they learn here" {
	local found=0
	for launcher in mpirun.openmpi mpirun.mpich; do
		command -v $launcher >/dev/null || continue
		((found++)) || reference
		mpi $launcher
	done
	((found)) || skip 'no mpirun'
	assert_nothing_left
}

@test "mpirun.sh: the command's exit status is its own; a failure to start is reported" {
	needs mpirun
	run bounded "$EXAMPLES/mpirun.sh" -n 2 -m 16M -- bash -c 'echo "$GPUSIM_COORD"; cat; exit 7' <<<in
	assert_status 7
	assert_match '^tcp://127.0.0.1:[0-9]+.in$'
	not pgrep -f -- "${lines[0]}"
	background "$EXAMPLES/mpirun.sh" -n 1 -m 16M -- bash -c 'echo "$GPUSIM_COORD" >address; exec tail -f /dev/null'
	wait_until 15 test -s address
	kill -TERM "$PID"
	wait_until 15 gone "$PID"
	not pgrep -f -- "$(cat address)"
	run bounded "$EXAMPLES/mpirun.sh" -n 2 -m 0 -- true
	assert_status 1
	assert_match 'mpirun.sh: needs 2 devices; only these started:'
	run "$EXAMPLES/mpirun.sh" -n none -- true
	assert_status 2
	assert_nothing_left
}

@test "mpirun.sh: a signal that comes right after a process was started leaves nothing" {
	needs mpirun
	local before
	for before in 'coordinator=' 'devices=' 'wait '; do
		echo "trap '[[ \$BASH_COMMAND != \"$before\"* ]] || kill -TERM \$\$' DEBUG" >environment
		BASH_ENV=$T/environment background "$EXAMPLES/mpirun.sh" -n 1 -m 16M -- tail -f /dev/null
		wait_until 15 gone "$PID"
		wait_until 15 not pgrep -s "$PID"
	done
}

LONG=(--algo ring --epochs 20 --batch 16 --layers "784,32,10" --seed 3)

# A mnist-train first in PATH that kills device 1 in the middle of the training, while that stands still.
deadly() {
	mkdir bin
	cat >bin/mnist-train <<-END
		#!/usr/bin/env bash
		exec 5< <(exec "$BUILD/bin/mnist-train" "\$@")
		trainer=\$!
		while read -r line <&5; do
			echo "\$line"
			[[ \$line == 'epoch 2/'* ]] || continue
			kill -STOP \$trainer
			kill -KILL "\$(gpuctl devices | awk '\$1 == 1 { print \$7 }')"
			kill -CONT \$trainer
		done
		wait \$trainer
	END
	chmod +x bin/mnist-train
	PATH=$T/bin:$PATH
}

# went_on FILE - the training met that, and came to its end
went_on() {
	grep -qE '^epoch [0-9]+: .* ms lost$' "$1" || fail "$(cat "$1")"
	grep -q '^epoch 20/20 ' "$1" || fail "$(cat "$1")"
}

@test "mpirun.sh: a device that is killed ends neither the job nor the training" {
	needs mpirun
	deadly
	for policy in respawn shrink; do
		run bounded "$EXAMPLES/mpirun.sh" -n 3 -m 64M -- \
			mnist-train --data "$DATA" "${LONG[@]}" --on-failure $policy
		assert_status 0
		echo "$output" >log
		went_on log
	done
	assert_nothing_left
	refute_file "$(echo /dev/shm/gpusim-*-mpirun-*)"
}

@test "slurm.sbatch and mpirun.sh keep a device in the same way" {
	for file in slurm.sbatch mpirun.sh; do
		sed -n "/^keep='/,/^# end of keep/p" "$EXAMPLES/$file" >"$file"
		[[ $(wc -l <"$file") -gt 10 ]]
	done
	cmp slurm.sbatch mpirun.sh
}

# slurm - a controller and three nodes on this host, in files of this test. Ends with it.
slurm() {
	local program port host
	for program in slurmctld slurmd srun sbatch scontrol; do
		command -v $program >/dev/null || skip "no $program"
	done
	[ "$(id -u)" = 0 ] || skip 'slurmd wants to be root'
	[ -e "$(find /usr/lib/*/slurm-wlm /usr/lib*/slurm -name auth_none.so 2>/dev/null | head -n 1)" ] ||
		skip 'this Slurm has no auth/none'
	host=$(hostname)
	port=$((20000 + $$ % 10000))
	mkdir -p slurm/{state,n1,n2,n3}
	export SLURM_CONF=$T/slurm/slurm.conf
	{
		cat <<-END
			ClusterName=test
			SlurmctldHost=$host(127.0.0.1)
			SlurmctldPort=$port
			SlurmctldPidFile=$T/slurm/ctld.pid
			SlurmdPidFile=$T/slurm/%n.pid
			SlurmdSpoolDir=$T/slurm/%n
			StateSaveLocation=$T/slurm/state
			SlurmUser=root
			AuthType=auth/none
			CredType=cred/none
			ProctrackType=proctrack/pgid
			TaskPlugin=task/none
			SwitchType=switch/none
			MpiDefault=none
			SelectType=select/linear
			SchedulerType=sched/builtin
			AccountingStorageType=accounting_storage/none
			JobAcctGatherType=jobacct_gather/none
			KillWait=2
			PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
		END
		for i in 1 2 3; do
			echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + i))"
		done
	} >"$SLURM_CONF"
	background slurmctld -D -c >slurm/ctld.log 2>&1
	for i in 1 2 3; do background slurmd -D -N "n$i" >"slurm/n$i.log" 2>&1; done
	wait_until 15 slurm_is_up || fail "$(cat slurm/*.log)"
}

slurm_is_up() { [[ $(sinfo -h -t idle -o %D) == 3 ]]; }

# daemons - the pids of those that ours are
daemons() {
	local pid
	for pid in $(ours); do
		case $(ps -o comm= -p "$pid") in gpudev | gpucoord) echo "$pid" ;; esac
	done
}

none_left() { [[ -z $(daemons) ]]; }

job_state() { scontrol show job "$1" | grep -oE '(JobState|ExitCode)=[^ ]*' | xargs; }

job_is_done() { [[ $(job_state "$1") == 'JobState=COMPLETED ExitCode=0:0' ]]; }

epochs_are_done() { [[ $(wc -l <there) == 2 ]] && none_left; }

@test "slurm.sbatch: three nodes of a Slurm, and they learn what they learn here" {
	slurm
	reference
	GPUSIM_MEM=64M bounded sbatch -N 3 -o job.log "$EXAMPLES/slurm.sbatch" \
		--data "$DATA" "${TRAIN[@]}" --json "$T/there"
	wait_until 20 epochs_are_done || fail "$(cat job.log)"
	grep -q '3 devices' job.log || fail "$(cat job.log)"
	assert_equal "$(learnt there)" "$(learnt here)"
	# srun alone, beside a coordinator that is there
	machine 0
	background srun -N 3 gpudev --listen 'tcp://*:0' -m 16M
	step=$PID
	wait_until 15 three_devices
	assert_equal "$(gpuctl devices --json | grep -o '"ordinal":[0-9]*' | xargs)" \
		'ordinal:0 ordinal:1 ordinal:2'
	id=$(gpuctl unique-id)
	run bounded srun -N 3 gpuctl --timeout 10s comm-init --id "$id"
	assert_status 0
	assert_output $'1\n1\n1'
	assert_equal "$(seq 3 | gpuctl allreduce --comm 1)" 6
	# shellcheck disable=SC2046 # one word a process
	kill -TERM $(gpuctl devices | awk 'NR > 1 { print $7 }')
	wait_until 10 gone "$step"
	wait_until 15 job_is_done 1 || fail "$(job_state 1)"
}

@test "slurm.sbatch: a device that is killed ends neither the job nor the training; several on a node" {
	slurm
	deadly
	GPUSIM_MEM=64M bounded sbatch -N 3 -o job.1 "$EXAMPLES/slurm.sbatch" \
		--data "$DATA" "${LONG[@]}" --on-failure respawn
	GPUSIM_MEM=64M bounded sbatch -N 1 -n 4 -o job.2 "$EXAMPLES/slurm.sbatch" \
		--data "$DATA" "${LONG[@]}" --on-failure shrink
	for job in 1 2; do
		wait_until 20 job_is_done $job || fail "$(cat job.$job)"
		went_on job.$job
		grep -q "$((job + 2)) devices" job.$job
	done
	wait_until 10 none_left
}

three_devices() { [[ $(gpuctl devices | wc -l) == 4 ]]; }

# --- containers

# image - what the programs need of this host, as the image of compose.yaml
image() {
	local program
	mkdir -p image/root/{tmp,etc,usr/bin,lib/x86_64-linux-gnu}
	for program in gpucoord gpudev gpuctl mnist-train; do
		cp "$BUILD/bin/$program" image/root/usr/bin/
	done
	cp -L --parents /bin/sh /bin/bash /usr/bin/grep image/root
	ldd image/root/usr/bin/* image/root/bin/* | grep -oE '/[^ ]*\.so[^ ]*' | sort -u |
		xargs -d '\n' cp -L --parents -t image/root
	echo 'hosts: files dns' >image/root/etc/nsswitch.conf
	printf 'FROM scratch\nCOPY root /\n' >image/Containerfile
}

# In a network and a mount namespace of its own, so that nothing of it stays on this host.
containers() {
	local dir
	ip link set lo up
	for dir in /run /etc/cni /var/lib/cni /var/lib/containers; do
		[[ ! -d $dir ]] || mount -t tmpfs none "$dir"
	done
	podman build -q -t gpusim image >/dev/null
	podman run --rm --network none gpusim gpuctl -V >/dev/null 2>why || {
		echo "unusable: podman: $(tail -n 1 why)"
		return 0
	}
	compose up -d coordinator device0 device1 device2 >up.log 2>&1 || return
	wait_until 20 container_devices
	compose run -T --rm --no-deps train mnist-train --data /data --devices 3 "${TRAIN[@]}" --json /dev/stdout
	compose down >down.log 2>&1
}

compose() { podman-compose -p test -f "$ROOT/examples/compose.yaml" "$@"; }
container_devices() {
	[[ $(podman exec test_coordinator_1 gpuctl devices | grep -oE 'tcp://device[0-2]:' | xargs) == \
		'tcp://device0: tcp://device1: tcp://device2:' ]]
}

@test "Containerfile: it builds with the packages that setup installs, from folders that are there" {
	sed -n '/^build_packages=(/,/)/p' "$ROOT/setup" | sed 's/build_packages=(//; s/)//' |
		grep -oE '[^[:space:]]+' | sed 's/[\\|].*//' | sort >wanted
	sed -n '/AS build/,/^COPY/p' "$EXAMPLES/Containerfile" | grep -oE '[^[:space:]]+' |
		grep -xFf wanted | sort >taken
	[[ $(wc -l <wanted) -gt 10 ]]
	diff wanted taken
	awk '$1 == "COPY" && $2 !~ /^--/ { for (i = 2; i < NF; i++) print $i }' "$EXAMPLES/Containerfile" |
		while read -r path; do assert_file "$ROOT/$path"; done
}

@test "Containerfile: its image has the libraries that the programs are linked with" {
	grep -q '^VERSION_CODENAME=bookworm' /etc/os-release || skip 'not the Debian that it is made of'
	((${#SANITIZE[@]} == 0)) || skip 'with the sanitizers they have others'
	sed '1,/ AS build/d' "$EXAMPLES/Containerfile" | sed '1,/^FROM/d' | grep -oE '[^[:space:]]+' >there
	for program in "$BUILD"/bin/gpu{dev,coord,ctl} "$BUILD/bin/mnist-train"; do
		ldd "$program" 2>&1 | sed -nE 's|.* => (/.*) \(.*|\1|p'
	done | xargs -n 1 readlink -f | sort -u | while read -r library; do
		dpkg -S "*/$(uname -m)-linux-gnu/*${library##*/}" | cut -d : -f 1
	done | sort -u >wanted
	# shellcheck disable=SC2046 # words
	apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
		$(grep -xE 'lib.*|zlib1g' there) 2>/dev/null | grep -oE '^[^[:space:]]+' | sort -u >brought
	run comm -23 wanted brought
	assert_output ''
}

@test "compose.yaml: each device in its container, and they learn what they learn here" {
	local runtime
	for program in podman podman-compose unshare ip; do
		command -v $program >/dev/null || skip "no $program"
	done
	[ "$(id -u)" = 0 ] || skip 'namespaces are for root'
	unshare --net --mount true 2>/dev/null || skip 'no namespaces here'
	[ -x /usr/lib/cni/dnsname ] || command -v aardvark-dns >/dev/null || [ -x /usr/lib/podman/aardvark-dns ] ||
		skip 'this podman has no names for containers'
	runtime=$(command -v runc || command -v crun) || skip 'no runc'
	image
	cat >containers.conf <<-END
		[containers]
		default_ulimits = ["nofile=1024:4096", "nproc=1000:1000"]
		[engine]
		runtime = "${runtime##*/}"
		cgroup_manager = "cgroupfs"
		events_logger = "file"
	END
	printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "/run/containers/storage"\n' \
		"$T/graph" >storage.conf
	export CONTAINERS_CONF=$T/containers.conf CONTAINERS_STORAGE_CONF=$T/storage.conf
	export GPUSIM_DATA=$DATA
	declare -f containers compose container_devices wait_until >script
	{
		declare -p ROOT TRAIN
		echo 'set -e; exec {TICK}<> <(:)'
		echo containers
	} >>script
	LIMIT=50 run bounded unshare --net --mount --pid --fork --mount-proc --kill-child bash script
	case $output in *unusable:*) skip "${output##*unusable: }" ;; esac
	assert_status 0
	reference
	echo "$output" >there
	assert_equal "$(learnt there)" "$(learnt here)"
}
