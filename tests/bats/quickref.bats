# gpusim-quickref(7): each command of the page runs, in the page's order and in the cluster that it names, and prints what
# the list below expects.
# shellcheck disable=SC2016,SC2154
load helper

# The page's commands, one a line: the first starts the shell in which the others run; comments are left out.
page_commands() {
	awk '/^\.Ed/ { on = 0 } on { sub(/^\$ /, ""); sub(/  *# .*/, ""); gsub(/\\\(aq/, "\047"); gsub(/\\e/, "\\"); print }
		/^\.Bd -literal/ { on = 1 }' "$ROOT/man/gpusim-quickref.7"
}

# What a command prints, as an extended regular expression over its whole output: COMMAND, a tab, EXPRESSION; ^$ is nothing.
expected() {
	cat <<'END'
gpuctl run -n 2 --each -- sh -c 'echo $RANK'	^(0 1|1 0)$
C=$(gpuctl comm-init -n 2)	^$
gpuctl comm-split $C 0,1	^0 2 1 3$
gpuctl comm-destroy 2	^$
gpuctl launch --list	^fill: .* axpy: 
A=$(gpuctl malloc --comm $C --rank 0 64)	^$
B=$(gpuctl malloc --comm $C --rank 1 64)	^$
printf 01234567 | gpuctl memcpy --comm $C - 0:$A	^$
gpuctl memcpy --comm $C 0:$A:8 - | od -c	^0000000 +0 +1 +2 +3 +4 +5 +6 +7 0000010$
gpuctl checksum --comm $C --addr $A,0 --count 1	^rank 0 +[0-9a-f]{16}$
seq 2 | gpuctl allreduce	^3$
printf '1 2\n3 4\n' | gpuctl reduce-scatter	^4 6$
echo 7 | gpuctl broadcast -n 2 --all	^7 7$
gpuctl allreduce --comm $C --addr $A,$B --count 8	^$
gpuctl barrier --comm $C	^$
gpuctl devices	^INDEX .* 3 
gpuctl status	4 devices, 2 communicators
gpuctl top --once	4 devices: .*DEV +RANK +STATE
gpuctl explain	comm 1 \(2 ranks
gpuctl events	joined
gpuctl trace --last 10s -o trace.json	^$
gpuctl inject --comm $C slow rank=1 by=1ms	^$
gpuctl chaos -n 2 --ops 5 --kinds slow	5 operations, 5 right
gpuctl run -n 2 --record tape -- gpuctl barrier	^$
gpuctl replay tape	0 differ
gpuctl plan allreduce --algo ring -n 4	rank 3: .* recv 
gpuctl plan allreduce -n 64 --bytes 4M --simulate	ring.*auto
gpuctl bench allreduce -n 2 -e 64K	 65536 .*Avg bus bandwidth
gpuctl tune allreduce -n 2 -e 4K >tuned	^$
gpuctl simulate allreduce -c h100-ib400 -n 32	 134217728 .*predicted|predicted.* 134217728 
gpuctl synth allgather -n 4 -o fast.algo	candidate
END
}

@test "each command of gpusim-quickref(7) runs in order, ends well and prints what it should" {
	local i got status
	page_commands >page
	at_least "$(wc -l <page)" 30
	assert_equal "$(head -n 1 page)" 'gpuctl run -n 4 --allow-inject -- bash'
	sed 1d page >commands
	# The page and the list above have the same commands.
	diff <(cut -f 1 <(expected)) commands
	i=0
	while IFS= read -r command; do
		i=$((i + 1))
		printf '{ %s\n} >>"$OUT.%d" 2>"$OUT.%d.err" </dev/null; echo $? >"$OUT.%d.status"\n' "$command" "$i" "$i" "$i"
	done <commands >script
	OUT=$T/out LIMIT=60 bounded bash -c "$(head -n 1 page) script"
	i=0
	while IFS=$'\t' read -r command pattern; do
		i=$((i + 1))
		status=$(cat "out.$i.status") || fail "does not run: $command"
		got=$(xargs -d '\n' <"out.$i" | sed 's/ *$//')
		[[ $status == 0 ]] || fail "exit status $status of: $command"$'\n'"$got $(cat "out.$i.err")"
		[[ $got =~ $pattern ]] || fail "$command"$'\n'"printed: ${got:0:1000}"$'\n'"expected: $pattern"
	done < <(expected)
	for made in trace.json tuned fast.algo tape; do [[ -s $made || -d $made ]] || fail "no $made"; done
}

@test "gpusim-quickref(7) fits a printed page" {
	needs mandoc
	mandoc -T utf8 -O width=78 "$ROOT/man/gpusim-quickref.7" | col -b >shown
	at_least 66 "$(wc -l <shown)"
	not grep -nE '^.{79}' shown
}
