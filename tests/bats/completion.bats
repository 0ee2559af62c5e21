# Completion in shells: gpuctl completion supplies candidates, and bash, zsh and fish show them.
# shellcheck disable=SC2016,SC2154
load helper

# offers WORD... - what there is for the last of them, on one line
offers() { gpuctl completion -- "$@" | cut -f 1 | xargs; }

@test "verbs, options, and values of options and operands" {
	assert_equal "$(offers comm-)" 'comm-init comm-destroy comm-status comm-abort comm-shrink comm-grow comm-split'
	assert_equal "$(offers --ti)" --timeout
	assert_equal "$(offers --timeout 5s all)" 'allreduce allgather alltoall allgatherv alltoallv'
	assert_equal "$(offers --coordinator x)" ''
	assert_equal "$(offers topo --)" '--comm --all --json'
	assert_equal "$(offers allreduce --a)" '--addr --algo --algo-file --async --all'
	assert_equal "$(offers allreduce --type f | tr ' ' '\n' | sort | xargs)" 'f16 f32 f64 f8e4m3 f8e5m2'
	assert_equal "$(offers allreduce --raw i3)" i32
	assert_equal "$(offers reduce --op m)" 'min max'
	assert_equal "$(offers run --on-failure s)" 'shrink spare'
	assert_equal "$(offers run --on-failure=s)" '--on-failure=shrink --on-failure=spare'
	assert_equal "$(offers run --on-failure = s)" 'shrink spare'
	assert_equal "$(offers run --transport '')" 'ipc tcp'
	assert_equal "$(offers chaos --kinds kill,s)" 'kill,stop kill,slow'
	assert_equal "$(offers inject c)" 'corrupt cut clear coordinator'
	assert_equal "$(offers plan allr)" allreduce
	assert_equal "$(offers plan allreduce x)" ''
	assert_equal "$(offers tune allreduce bro)" broadcast
	assert_equal "$(offers help dev)" devices
	assert_equal "$(offers bench --baseline '')" :files
	assert_equal "$(offers no-such-verb --)" ''
}

@test "algorithms are those of the collective, kernels those of gpudev" {
	assert_equal "$(offers plan gather --algo '')" "$(gpuctl plan --list | awk '$1 == "gather" { print $2 }' | xargs)"
	assert_equal "$(offers gather --algo '')" "$(offers plan gather --algo '')"
	assert_equal "$(offers bench --algo '' | tr ' ' '\n' | sort)" \
		"$(gpuctl plan --list | awk '{ print $2 }' | sort -u)"
	assert_equal "$(offers launch --device 0 '')" "$(gpuctl launch --list | sed -n 's/^\([a-z][^:]*\): .*/\1/p' | xargs)"
}

@test "algorithms of files are offered where a coordinator has them" {
	assert_equal "$(offers allreduce --algo my)" ''
	assert_equal "$(offers algo '')" 'add list remove'
	assert_equal "$(offers algo add '')" :files
	bounded gpuctl run -n 1 -- bash -c 'gpuctl algo add my-ring "$1"
		for line in "allreduce --algo my" "allgather --algo my" "algo remove my" "algo list my"; do
			gpuctl completion -- $line
		done' - "$ROOT/examples/algos/ring.algo" >out
	assert_equal "$(tr '\t\n' '  ' <out)" 'my-ring my-ring allreduce for 4 ranks, from a file my-ring allreduce for 4 ranks, from a file '
}

@test "built-in clusters, existing communicators and devices" {
	assert_equal "$(offers simulate allreduce -c h100-i)" 'h100-ib400 :files'
	assert_equal "$(offers simulate step --schedule zb-h)" 'zb-h1 zb-h2 :files'
	assert_equal "$(offers simulate step --schedule gp)" 'gpipe :files'
	assert_equal "$(offers simulate training --fail-rate ll)" ':files llama3 :files'
	bounded gpuctl run -n 1 -- bash -c 'gpuctl comm-init -n 1 >/dev/null
		for line in "comm-destroy " "allreduce --comm " "malloc --device "; do gpuctl completion -- $line ""; done' >out
	id=$(cut -f 1 out | tail -n 1)
	[[ $id =~ ^[0-9a-f]{16}$ ]] || fail "$(cat out)"
	assert_equal "$(cut -f 1 out | xargs)" "1 1 0 $id"
}

@test "the other programs, by themselves and after run" {
	assert_equal "$(offers mnist-train --mod)" --model
	assert_equal "$(offers mnist-train --model l)" lenet
	assert_equal "$(offers run -n 2 -- mnist-train --model = l)" lenet
	assert_equal "$(offers mnist-train --load x)" :files
	assert_equal "$(offers gpucoord --heart)" --heartbeat
	assert_equal "$(offers gpudev --mem-f)" --mem-file
}

@test "after run: a command, and gpuctl's own words if that is gpuctl" {
	assert_equal "$(gpuctl completion -- run -n 2 -- ls '')" $':command\t4'
	assert_equal "$(gpuctl completion -- run -n 2 l)" $':command\t3'
	assert_equal "$(offers run -n 2 -- gpuctl allr)" allreduce
	assert_equal "$(offers run -n 2 -- /x/gpuctl run -n 2 gpuctl reduce --op pr | tr ' ' '\n' | sort | xargs)" 'premulsum prod'
	assert_equal "$(gpuctl completion -- run -n 2 -- gpuctl run -n 1 -- ls -)" $':command\t9'
}

@test "bash" {
	complete() { # WORDS... - what completing the last one gives
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
		_gpuctl
		echo "${COMPREPLY[*]}"
	}
	# shellcheck source=cmd/gpuctl/completion.bash
	source "$ROOT/cmd/gpuctl/completion.bash"
	mkdir tree
	touch tree/one tree/two
	assert_equal "$(complete gpuctl topo)" topo
	assert_equal "$(complete gpuctl reduce --op m)" 'min max'
	assert_equal "$(complete gpuctl reduce --op =)" "$(gpuctl reduce --op = 2>&1 | sed 's/.*(\(.*\))/\1/')"
	assert_equal "$(complete gpuctl run -n 2 -- gpuctl allr)" allreduce
	assert_equal "$(complete gpuctl run -n 2 -- gpuc | tr ' ' '\n' | grep -xm 1 gpuctl)" gpuctl
	assert_equal "$(complete gpuctl run -n 2 -- cat tree/o)" tree/one
	assert_equal "$(complete gpuctl memcpy tree/t)" tree/two
	assert_equal "$(complete mnist-train --model l)" lenet
	assert_equal "$(complete "$BUILD/bin/mnist-train" --model l)" lenet
	_command_offset() { COMPREPLY=("from $1"); }
	assert_equal "$(complete gpuctl run -n 2 -- git che)" 'from 5'
}

# zsh's own functions, which work at a terminal only, are replaced by functions that print their calls.
@test "zsh" {
	needs zsh
	cp "$ROOT/cmd/gpuctl/completion.zsh" _gpuctl
	cat >script <<-'END'
		fpath=(. $fpath)
		autoload -Uz _gpuctl
		_describe() { print -r -- "${(@P)4}" }
		_files() { print files }
		_normal() { print -r -- "word $CURRENT of: $words" }
		complete() { words=("$@"); CURRENT=$#; _gpuctl }
		complete gpuctl topo
		complete gpuctl reduce --op m
		complete gpuctl run -n 2 -- gpuctl allr
		complete gpuctl memcpy ''
		complete gpuctl run -n 2 -- git che
		complete mnist-train --model l
	END
	run zsh -f script
	assert_output 'topo:show how each pair of devices reaches each other
min max
allreduce:reduce; every rank gets the result
files
word 2 of: git che
lenet'
}

@test "fish" {
	needs fish
	mkdir tree
	touch tree/one
	cat >script <<-END
		source $ROOT/cmd/gpuctl/completion.fish
		complete -C 'gpuctl topo'
		complete -C 'gpuctl reduce --op m' | sort
		complete -C 'gpuctl run -n 2 -- gpuctl allr'
		complete -C 'gpuctl memcpy tree/o'
		complete -C 'gpuctl run -n 2 -- cat tree/o'
		complete -C 'mnist-train --model l'
	END
	HOME=$T run fish --no-config script
	assert_output $'topo\tshow how each pair of devices reaches each other
max
min
allreduce\treduce; every rank gets the result
tree/one
tree/one
lenet'
}
