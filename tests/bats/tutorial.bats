# gpusim-tutorial(7): its blocks run in the page's order, in one folder, and print what they show. Blocks without a command
# are examples of output with times and ids. The training is on the small set in tests/data.
# shellcheck disable=SC2154
load helper
load docs

setup() {
	house_setup
	export GPUSIM_DATA=$ROOT/tests/data
}

@test "gpusim-tutorial(7): each block runs in order and prints what it shows" {
	blocks "$ROOT/man/gpusim-tutorial.7"
	at_least "$(echo block.* | wc -w)" 20
	printf '%s\n' block.* | sort -t . -k 2n | xargs cat >all
	LIMIT=50 run_block all
	assert_nothing_left
}

@test "gpusim-tutorial(7) has the section of each step" {
	for section in 'DEVICES AND RANKS' 'THE FIRST ALL-REDUCE' 'RING AGAINST TREE' 'A TRAINING' 'A DEVICE IS KILLED' 'A HANG' \
		'A PROCESS A RANK' 'WHERE TO GO ON'; do
		grep -qx ".Sh $section" "$ROOT/man/gpusim-tutorial.7" || fail "no section $section"
	done
}
