# Programs of NCCL and MPI: a process for each rank.
load nccl

setup() {
	nccl_setup
	[ -x "$PROGRAMS/mpi_ranks" ] || skip 'built without MPI (./setup --dev)'
	# The tests may run as root, with more ranks than processors, beside other jobs.
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
	export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
}

@test "mpirun in gpuctl run --nccl: each rank's sums are MPI's" {
	for n in 1 2 4; do
		run --separate-stderr bounded gpuctl run --nccl -n 4 -- mpirun -n $n "$PROGRAMS/mpi_ranks"
		assert_status 0
		assert_output "$n of $n ranks agree with MPI"
	done
	assert_nothing_left
}
