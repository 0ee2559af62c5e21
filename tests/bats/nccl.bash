# nccl.bash - loaded by nccl*.bats:   load nccl
#
# The programs of tests/nccl lie in $BUILD/e2e/nccl. CUDA programs (.cu) are there only if g++ was.
# shellcheck shell=bash disable=SC2034,SC2154
load helper

nccl_setup() {
	local name
	house_setup
	for name in "${!NCCL_@}" "${!CUDA_@}" GPUSIM_HOSTID GPUSIM_TIMEOUT GPUSIM_UNIFIED GPUSIM_P2P_DISABLE LD_LIBRARY_PATH; do
		unset "$name"
	done
	NCCL_HOME_HERE=$(gpuctl nccl-home)
	PROGRAMS=$BUILD/e2e/nccl
	LIMIT=30
}

setup() { nccl_setup; }

teardown() {
	house_teardown
}

# need_cuda - skip the test where .cu files cannot be compiled
need_cuda() { needs g++; }

# nccl N [OPTION...] PROGRAM [ARG...] - run a program of tests/nccl with N devices
nccl() {
	local options=(-n "$1")
	shift
	while [[ $1 == -* ]]; do
		options+=("$1") && shift
	done
	bounded gpuctl run --nccl "${options[@]}" -- "$PROGRAMS/$1" "${@:2}"
}
