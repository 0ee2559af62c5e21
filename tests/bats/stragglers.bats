#!/usr/bin/env bats
# Ranks that hold up the others.
load helper

@test "the slow rank is named, and not its victims" {
	cat >script <<-'EOF'
		gpudev --listen "ipc://$T/slow.sock" --ordinal 9 --id 0x5105 --latency 250ms -m 16M &
		trap "kill $!" EXIT
		until gpuctl devices | grep -q 0000000000005105; do :; done
		C=$(gpuctl comm-init -n 4)
		for _ in 1 2 3 4 5; do gpuctl barrier --comm "$C"; done
		gpuctl stragglers "$C"
		gpuctl stragglers "$C" --json >json
	EOF
	run bounded gpuctl run -n 3 --mem 16M -- bash -eu script
	assert_status 0
	assert_match '^ RANK  DEVICE            OPERATIONS       MEAN us        MAX us'
	assert_equal "$(sed 1d <<<"$output" | sort -nr -k 4 | awk 'NR == 1 {print $1, $2, $3, ($4 > 100000)}')" \
		"3 0000000000005105 5 1"
	assert_equal "$(grep -o '"operations":5' json | wc -l)" 4
	run -2 gpuctl stragglers one
}
