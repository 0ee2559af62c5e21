# Communicators of a communicator, by calls of each rank's process; the death of a rank's process.
load nccl

@test "family: each process splits; ranks leave one by one" {
	run nccl 4 qcoord_family split
	assert_output good
}

@test "family: a communicator grows by new processes" {
	run nccl 4 qcoord_family grow
	assert_output good
}

@test "family: a process that is killed is a remote error for the others, which shrink and continue" {
	run nccl 4 qcoord_family death
	assert_output good
	GPUSIM_P2P_DISABLE=1 run nccl 4 qcoord_family death
	assert_output good
}
