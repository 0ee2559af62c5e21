# docs.bash - what runs the examples of README.md and the man pages; loaded by docs.bats and tutorial.bats after helper.
# shellcheck shell=bash disable=SC2154

teardown() {
	if [[ -n $GROUP ]]; then # daemons remove their memory on SIGTERM, not on SIGKILL
		if kill -TERM -- "-$GROUP" 2>/dev/null; then
			wait_until 5 not pgrep -g "$GROUP" || true
		fi
		kill -KILL -- "-$GROUP" 2>/dev/null || true
	fi
	house_teardown
}

# blocks FILE - its examples, in files block.1, block.2 ...
blocks() {
	rm -f block.*
	case $1 in
	*.md) awk '/^```/ { on = $0 == "```console"; n += on; next } on { print >("block." n) }' "$1" ;;
	*) awk '/^\.Ed/ { on = 0 }
		first { first = 0; on = /^\$ /; n += on }
		on { gsub(/\\\(aq/, "\047"); gsub(/\\e/, "\\"); print >("block." n) }
		/^\.Bd -literal/ { first = 1 }' "$1" ;;
	esac
}

# run_block BLOCK - run it, in a folder of its own, and compare
run_block() {
	local i=0 status=0 got
	rm -rf work expect.* && mkdir work
	awk '/^\$ / { n++; print "printf \"\\036\""; print substr($0, 3); next }
		/^> / { print substr($0, 3); next }
		{ print >("expect." n) }' "$1" >script
	(cd work && exec env --default-signal setsid timeout -k 2 $((${LIMIT:-40} * PATIENCE)) \
		bash -e -o pipefail ../script) >out 2>&1 </dev/null 3>&- &
	GROUP=$!
	wait "$GROUP" || status=$?
	((status == 0)) || fail "exit status $status of: $(cat "$1")"$'\n'"which printed: $(tr '\036' '\n' <out)"
	mapfile -d $'\036' got <out
	for ((i = 1; i < ${#got[@]}; i++)); do
		[[ ! -e expect.$i ]] || assert_equal "${got[i]%$'\036'}" "$(cat "expect.$i")"$'\n'
	done
	[[ ! -e expect. ]] || fail "prints before its first command: $1"
}
