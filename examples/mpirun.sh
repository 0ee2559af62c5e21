#!/usr/bin/env bash
# mpirun.sh - a machine of devices that mpirun starts, of Open MPI or of MPICH, and a command on it.
#
#	examples/mpirun.sh -n 4 -- mnist-train --epochs 1
#	examples/mpirun.sh -n 8 -a node0 -o '--hostfile hosts' -- mnist-train
#
#	-n N	devices
#	-a ADDR	the name or address by which the other hosts reach this one (default: 127.0.0.1, all
#		devices are on this host)
#	-o OPT	further options of mpirun, with blanks between them
#	-m SIZE	memory of a device
#
# The coordinator runs here. Each gpudev has its rank from mpirun, and listens at the address by which
# its host reaches the coordinator. When the command ends, so does all, with its exit status.
#
# A device that is killed is started again on its host, GPUSIM_RESTARTS (10) times; a training goes on
# with --on-failure respawn when it is back, and with --on-failure shrink at once, without it.
#
# MPIRUN names another mpirun than the one in PATH. With GPUSIM_TLS_CERT, GPUSIM_TLS_KEY and
# GPUSIM_TLS_CA set (gpusim(7)) everything is encrypted; without, hosts that -a names must be among
# themselves.
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

# Open MPI wants to be told to start more than it has processors, to let a device use more than one, and
# that root knows what it does.
mpirun=${MPIRUN:-mpirun}
if "$mpirun" --version 2>&1 | grep -q 'Open MPI\|OpenRTE'; then
	options+=(--oversubscribe --bind-to none)
	[ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
fi
scheme=tcp insecure=()
[ -z "${GPUSIM_TLS_CERT-}" ] || scheme=tls+tcp
[ "$scheme" != tcp ] || [ "$addr" = 127.0.0.1 ] || insecure=(--insecure)

# mpirun hands SIGUSR1 on, and the devices end by it, in 5 seconds at most, and clean up. SIGTERM would not
# leave them that long.
finish() {
	trap - EXIT TERM INT
	[ -z "${command-}" ] || kill "$command" 2>/dev/null || true
	if [ -n "${devices-}" ]; then
		[ -z "${passing-}" ] || kill "$passing" 2>/dev/null || true
		kill -USR1 "$devices" 2>/dev/null || true
		timeout 10 cat <&"$said" || true # until they have ended
		kill "$devices" 2>/dev/null || true
	fi
	[ -z "${coordinator-}" ] || kill "$coordinator" 2>/dev/null || true
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

# One per rank: it starts gpudev, and again on the same memory when a signal has killed that, so that the
# device has its id and its allocations. It ends well whatever becomes of the device: launchers end a job
# when one of its processes fails. A device that ends by itself and badly is told in a line.
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

# The processes' environment on other hosts is not this one: the coordinator is named.
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
		echo "mpirun.sh: $n devices wanted, these came:${line:+ $line}" >&2
		gpuctl devices >&2
		exit 1
	fi
done
cat <&"$said" & # what else they say
passing=$!

# Waited for in the background, so that a signal is heard meanwhile.
"$@" <&0 &
command=$!
wait "$command"
