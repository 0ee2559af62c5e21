# peers.bash - the peers: how each is built, its settings, one run of it. Sourced by run.
# shellcheck shell=bash disable=SC2154 # here, build, tmp, short: of run

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
python=/usr/bin/python3 # the distribution's, which has its torch
export PYTHONPATH=$build/python${PYTHONPATH:+:$PYTHONPATH}
programs=$build/bench
missing=()

# ---- programs

have() { [ -e "$programs/$1" ]; }

# want NAME PACKAGES SOURCE COMPILER [ARG...] - build $programs/NAME unless it is newer than all of
# bench/. A program that does not build is left out; the end lists its packages.
want() {
	local out=$programs/$1 packages=$2 source=$here/$3 compiler=$4
	shift 4
	if [ -x "$out" ] && [ -z "$(find "$here" "$build/libgpusim.a" -newer "$out" -name '*.[ach]*')" ]; then
		return
	fi
	rm -f "$out"
	if ! command -v "$compiler" >/dev/null ||
		! "$compiler" -O3 -Wall -Wextra -I"$here/peers" -I"$here/../include" -o "$out" "$source" \
			"$@" 2>"$tmp/build.log"; then
		missing+=("${out##*/} ($packages)")
		[ -z "${V-}" ] || cat "$tmp/build.log" >&2
	fi
}

build_programs() {
	local c=(-std=c11 -D_GNU_SOURCE) libs=(-lmbedtls -lmbedx509 -lmbedcrypto -lprotobuf-c -lz -lm -pthread) f
	mkdir -p "$programs"
	want call 'a build without sanitizers' call.c cc "${c[@]}" "$build/libgpusim.a" "${libs[@]}"
	want rank_call 'a C compiler' rank_call.c cc "${c[@]}" -fPIC -shared -L"$build" -l:libgpusim.so.0.2
	want recorder 'a build without sanitizers' recorder.c cc "${c[@]}" "$build/libgpusim.a" "${libs[@]}"
	want spawn 'a C compiler' spawn.c cc "${c[@]}"
	want roundtrip 'libnng-dev' peers/roundtrip.c cc "${c[@]}" -lnng -pthread
	want memory 'a C compiler' peers/memory.c cc "${c[@]}" -march=native -pthread
	want pipe_sum 'a C compiler' peers/pipe_sum.c cc "${c[@]}" -march=native
	want ompi 'openmpi-bin libopenmpi-dev' peers/mpi_allreduce.c mpicc.openmpi "${c[@]}"
	want mpich 'mpich libmpich-dev' peers/mpi_allreduce.c mpicc.mpich "${c[@]}"
	want nccl_call 'openmpi-bin libopenmpi-dev' peers/nccl_call.c mpicc.openmpi "${c[@]}" -I"$build/nccl/include" \
		-L"$build/nccl/lib" -lnccl -lcudart
	if ! [ -x "$programs/kernels" ] || [ -n "$(find "$here" "$build/nccl" -newer "$programs/kernels" -name '*.[ch]*')" ]; then
		rm -f "$programs/kernels"
		"$build/nccl/bin/nvcc" -O3 -o "$programs/kernels" "$here/kernels.cu" "$here/kernels_loops.c" 2>"$tmp/build.log" ||
			missing+=('kernels (g++)')
	fi
	want gloo 'libgloo-dev' peers/gloo_allreduce.cc c++ -lgloo -pthread
	if [ -e "$here/peers/mnist_loop.c" ]; then
		want mnist_loop 'libopenblas-dev zlib1g-dev' peers/mnist_loop.c cc "${c[@]}" \
			-march=native -lopenblas -lz -lm
	fi
	rm -f "$programs"/{torch,mnist_ddp}
	for f in torch_allreduce:torch mnist_ddp:mnist_ddp; do
		[ -e "$here/peers/${f%:*}.py" ] || continue
		if [ -e /usr/lib/python3/dist-packages/torch ]; then
			ln -s "$here/peers/${f%:*}.py" "$programs/${f#*:}"
		else
			missing+=("${f#*:} (python3-torch)")
		fi
	done
}

# ---- settings
#
# TRANSPORT|PEER|SETTING|RANKS|WORDS. WORDS are options of mpirun.openmpi, variables for mpirun.mpich,
# algorithm and mode for gloo. RANKS: the numbers of ranks with which it was the best at some size, or close to
# that, when all were tried; ALL=1 tries all again.
dynamic='--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm'
polls=MPIR_CVAR_POLLS_BEFORE_YIELD
algorithm=MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM
settings="
shm|ompi|default|2 3 4 8|
shm|ompi|rabenseifner|2 3 4 8|$dynamic 6
shm|ompi|ring 64K|2 8|$dynamic 5 --mca coll_tuned_allreduce_algorithm_segmentsize 65536
shm|ompi|ring 1M||$dynamic 5 --mca coll_tuned_allreduce_algorithm_segmentsize 1048576
shm|ompi|ring||$dynamic 4
shm|ompi|recursive doubling|4|$dynamic 3
shm|ompi|nonoverlapping|4 8|$dynamic 2
shm|ompi|no cma||--mca btl_vader_single_copy_mechanism none
shm|ompi|yield||--mca mpi_yield_when_idle 1
shm|ompi|coll sm||--mca coll_sm_priority 100
shm|mpich|default|2 3 4 8|
shm|mpich|no smp|2|MPIR_CVAR_ENABLE_SMP_ALLREDUCE=0
shm|mpich|recursive doubling|2|$algorithm=recursive_doubling
shm|mpich|rabenseifner|2 3 4 8|$algorithm=reduce_scatter_allgather
shm|mpich|release gather||MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=release_gather
shm|mpich|polls 1|2|$polls=1
shm|mpich|ucx shm|3 8|MPIR_CVAR_NOLOCAL=1 UCX_TLS=posix,cma,self
tcp|ompi|default|2 4|
tcp|ompi|rabenseifner|2 4|$dynamic 6
tcp|ompi|recursive doubling|2|$dynamic 3
tcp|ompi|ring|4|$dynamic 4
tcp|ompi|ring 1M||$dynamic 5 --mca coll_tuned_allreduce_algorithm_segmentsize 1048576
tcp|ompi|eager 1M|2 4|--mca btl_tcp_eager_limit 1048576 --mca btl_tcp_rndv_eager_limit 1048576
tcp|ompi|buffers 4M||--mca btl_tcp_sndbuf 4194304 --mca btl_tcp_rcvbuf 4194304
tcp|ompi|two links||--mca btl_tcp_links 2
tcp|ompi|yield||--mca mpi_yield_when_idle 1
tcp|mpich|default|2 4|
tcp|mpich|rabenseifner|2|$algorithm=reduce_scatter_allgather
tcp|mpich|polls 1||$polls=1
tcp|gloo|new|2|new async
tcp|gloo|new ring||new_ring async
tcp|gloo|new bcube||new_bcube async
tcp|gloo|ring||ring async
tcp|gloo|ring_chunked|4|ring_chunked async
tcp|gloo|ring_chunked sync||ring_chunked sync
tcp|gloo|ring sync||ring sync
tcp|gloo|halving_doubling||halving_doubling async
tcp|gloo|halving_doubling sync|2 4|halving_doubling sync
tcp|gloo|halving_doubling poll|2 4|halving_doubling poll
tcp|gloo|bcube|4|bcube async
tcp|gloo|bcube sync|2 4|bcube sync
tcp|gloo|bcube poll|2|bcube poll
tcp|torch|all_reduce|2 4|
"

# rows TRANSPORT N - those of the table to be run
rows() {
	local transport peer setting ranks words
	while IFS='|' read -r transport peer setting ranks words; do
		[ "$transport" = "$1" ] || continue
		have "$peer" || continue
		case " $ranks " in
		*" $2 "*) ;;
		*) [ -n "${ALL-}" ] || continue ;;
		esac
		[ -z "$short" ] || [ "$setting" = default ] || [ "$setting" = 'bcube sync' ] || continue
		printf '%s|%s|%s|%s\n' "$transport" "$peer" "$setting" "$words"
	done <<<"$settings"
}

# run_peer TRANSPORT PEER WORDS N SIZE... - prints BYTES MICROSECONDS WRONG ... lines
run_peer() {
	local transport=$1 peer=$2 words=() n=$4 program=$programs/$2 fabric
	read -ra words <<<"$3"
	shift 4
	case $peer in
	ompi)
		fabric=(--mca pml ob1 --mca btl "self,vader")
		[ "$transport" = shm ] || fabric=(--mca pml ob1 --mca btl "self,tcp" --mca btl_tcp_if_include lo)
		timeout -k 5 "$limit" mpirun.openmpi --oversubscribe "${fabric[@]}" "${words[@]}" -n "$n" "$program" "$@"
		;;
	mpich)
		fabric=()
		[ "$transport" = shm ] || fabric=(MPIR_CVAR_NOLOCAL=1 "UCX_TLS=tcp,self" UCX_NET_DEVICES=lo)
		timeout -k 5 "$limit" env "${fabric[@]}" "${words[@]}" mpirun.mpich -n "$n" "$program" "$@"
		;;
	gloo) timeout -k 5 "$limit" "$program" "$n" "${words[@]}" "$@" ;;
	torch) timeout -k 5 "$limit" "$python" "$program" "$n" "$@" ;;
	esac
}

versions() {
	local v=()
	have ompi && v+=("Open MPI $(mpirun.openmpi --version | sed -n '1s/.* //p')")
	have mpich && v+=("MPICH $(mpichversion | sed -n 's/^MPICH Version:[[:space:]]*//p')")
	have gloo && v+=("gloo $(dpkg-query -W -f '${Version}' libgloo-dev 2>/dev/null || echo '?')")
	have torch && v+=("PyTorch $(dpkg-query -W -f '${Version}' python3-torch 2>/dev/null || echo '?')")
	v+=("nng $(dpkg-query -W -f '${Version}' libnng-dev 2>/dev/null || echo '?')")
	printf '%s' "${v[0]}"
	printf ', %s' "${v[@]:1}"
}
