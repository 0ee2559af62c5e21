#!/usr/bin/env bash
# mpirun.sh - run a command on devices that mpirun starts, of Open MPI or MPICH.
#
#	examples/mpirun.sh -n 4 -- mnist-train --epochs 1
#	examples/mpirun.sh -n 8 -a node0 -o '--hostfile hosts' -- mnist-train
#
#	-n N	devices
#	-a ADDR	name or address by which the other hosts reach this one (default: 127.0.0.1; all devices
#		are then on this host)
#	-o OPT	further options of mpirun, separated by blanks
#	-m SIZE	memory of a device
#
# The coordinator runs here. A gpudev takes its rank from mpirun, and listens at the address by which its host reaches
# the coordinator. Everything ends when the command ends, with its exit status.
#
# A killed device is started again on its host, at most GPUSIM_RESTARTS (10) times. A training continues with
# --on-failure respawn when the device is back, and with --on-failure shrink at once, without it.
#
# MPIRUN names another mpirun than the one in PATH. With GPUSIM_TLS_CERT, GPUSIM_TLS_KEY and GPUSIM_TLS_CA (gpusim(7))
# everything is encrypted. Without them, use -a only in a network that you trust.
set -euo pipefail

PATH=$PATH:$(dirname "$(readlink -f "$0")")/../build/bin

usage() {
	echo "usage: mpirun.sh -n N [-a ADDR] [-o OPTIONS] [-m SIZE] [--] COMMAND [ARG...]" >&2
	exit 2
}
n='' addr=127.0.0.1 options=() mem=()
while getopts n:a:o:m: opt; do
	case $opt in
	n) n=$OPTARG ;;
	a) addr=$OPTARG ;;
	o) read -r -a options <<<"$OPTARG" ;;
	m) mem=(--mem "$OPTARG") ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[[ $n =~ ^[1-9][0-9]*$ && $# -gt 0 ]] || usage

# Open MPI needs options to start more devices than processors, to let a device use more than one, and to run as root.
mpirun=${MPIRUN:-mpirun}
if "$mpirun" --version 2>&1 | grep -q 'Open MPI\|OpenRTE'; then
	options+=(--oversubscribe --bind-to none)
	[ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
fi
scheme=tcp insecure=()
[ -z "${GPUSIM_TLS_CERT-}" ] || scheme=tls+tcp
[ "$scheme" != tcp ] || [ "$addr" = 127.0.0.1 ] || insecure=(--insecure)

# mpirun forwards SIGUSR1 to the devices, which end and clean up within 5 seconds. SIGTERM would not leave them that
# long.
#
# A signal may come when a process has started and no variable has its pid yet: it is a job or $! then.
finish() {
	trap - EXIT TERM INT
	local last=$!
	jobs -p | xargs -r kill 2>/dev/null || true # the command, and what passes the devices' lines on
	if [ -n "${said-}" ]; then
		devices=${devices:-$last}
		kill -USR1 "$devices" 2>/dev/null || true
		timeout 10 cat <&"$said" || true # until they have ended
		kill "$devices" 2>/dev/null || true
	fi
	[ -z "${ready-}" ] || kill "${coordinator:-$last}" 2>/dev/null || true
	wait || true
}
trap finish EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

exec {ready}< <(exec gpucoord --listen "$scheme://$addr:0" "${insecure[@]}" --state none --print-address)
coordinator=$!
read -r -t 30 -u "$ready" GPUSIM_COORD || {
	echo "mpirun.sh: no coordinator" >&2
	exit 1
}
export GPUSIM_COORD

# One process per rank. It starts gpudev, and starts it again on the same memory after a signal has killed it, so the
# device has its id and its allocations again. It always exits with 0, because launchers end a job when one of its
# processes fails. If a device fails by itself, a line says so.
# shellcheck disable=SC2016 # it expands there
keep='
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}
mem=$1-$rank left=$2 ready="-N 3" ends=
shift 2
trap "ends=1; kill \$pid 2>/dev/null" HUP INT TERM USR1
exec 3>&1 4<&0
while :; do
	gpudev $ready --supervised --mem-scratch "$mem" "$@" <&4 & pid=$!
	[ -z "$ends" ] || kill $pid
	status=0
	while kill -0 $pid 2>/dev/null; do wait $pid && status=0 || status=$?; done
	[ $status -gt 128 ] && [ -z "$ends" ] || break
	echo "gpudev of rank $rank: killed by signal $((status - 128))" >&2
	[ $left -gt 0 ] || break
	left=$((left - 1)) ready=
done
rm -f "$mem"
[ $status -eq 0 ] || [ $status -gt 128 ] || [ -n "$ends" ] || echo "gpudev of rank $rank: exit status $status"
exit 0
'
# end of keep

# Processes on other hosts do not have this environment, so they get the coordinator as an option.
exec {said}< <(exec "$mpirun" -n "$n" "${options[@]}" sh -c "$keep" keep \
	"/dev/shm/gpusim-$(id -u)-mpirun-$$" "${GPUSIM_RESTARTS:-10}" \
	--coordinator "$GPUSIM_COORD" --listen "$scheme://*:0" "${insecure[@]}" "${mem[@]}" \
	</dev/null 2> >(grep -v 'Forwarding signal' >&2))
devices=$!

# Each device writes an empty line when it is ready.
deadline=$((SECONDS + 60)) line=''
for ((i = 0; i < n; i++)); do
	left=$((SECONDS < deadline ? deadline - SECONDS : 1))
	if ! read -r -t $left -u "$said" line || [ -n "$line" ]; then
		echo "mpirun.sh: needs $n devices; only these started:${line:+ $line}" >&2
		gpuctl devices >&2
		exit 1
	fi
done
cat <&"$said" & # their other lines

# In the background, so that the shell handles signals meanwhile.
"$@" <&0 &
wait $!
