# Algorithms from files: what plan prints and refuses, and that what it prints is read again.
load helper

setup() {
	house_setup
	ALGOS=$ROOT/examples/algos
}

# refused CODE WANT ARG... - one line that contains WANT, and that exit code
refused() {
	run bounded gpuctl plan "${@:3}"
	assert_status "$1"
	[[ ${#lines[@]} -eq 1 && $output == "gpuctl: plan: "*"$2"* ]] ||
		fail "expected one line with: $2"$'\n'"got: $output"
}

@test "algofile: every example is proven, and prints the same in both forms" {
	for f in "$ALGOS"/*; do
		gpuctl plan allreduce --algo-file "$f" | sed -n 1p >was
		grep -q 'digest [0-9a-f]\{16\}$' was
		for form in text xml; do
			gpuctl plan allreduce --algo-file "$f" --format $form >again
			gpuctl plan all-reduce --algo-file again | sed -n 1p | diff was -
		done
	done
}

@test "algofile: steps and JSON agree" {
	needs python3
	gpuctl plan allreduce --algo-file "$ALGOS/ring.blocks.algo" -n 4 >got
	grep -qx 'proven: 28 steps, 24 messages; connections that hold 2 messages suffice' got
	grep -qx '  block 0: sends to rank 1, receives from rank 3, channel 0' got
	grep -qxF '    step 1    rrcs  input[2,3) -> input[2,3)' got
	gpuctl plan allreduce --algo-file "$ALGOS/ring.blocks.algo" --json |
		python3 -c 'import json,sys; a=json.load(sys.stdin)
assert a["slots"] == 2 and len(a["ranks"]) == 4
assert a["ranks"][0]["blocks"][0]["steps"][1]["dst"] == {"buffer": "input", "chunk": 2}'
}

@test "algofile: built-in algorithms are printed as files" {
	for n in 3 8; do
		for what in 'allreduce ring' 'allreduce tree' 'allgather bruck' 'reduce-scatter halving' \
			'alltoall bruck' 'broadcast tree' 'reduce tree'; do
			read -r coll algo <<<"$what"
			gpuctl plan "$coll" -n $n --algo "$algo" --format text >file
			gpuctl plan "$coll" --algo-file file -n $n >steps
			grep -q '^proven' steps
		done
	done
	gpuctl plan reducescatter -n 4 --algo ring --format xml >file
	gpuctl plan reduce-scatter -n 4 --algo-file file >steps
	refused 2 "twoshot reads and writes the other ranks' memory" allreduce -n 4 --algo twoshot --format text
	refused 2 "barrier cannot be a file" barrier -n 4 --format text
}

@test "algofile: words that disagree with the file are wrong usage, a wrong file is bad data" {
	refused 2 "is for 4 ranks, but -n is 5" allreduce --algo-file "$ALGOS/ring.algo" -n 5
	refused 2 "is for allreduce, not reduce-scatter" reducescatter --algo-file "$ALGOS/ring.algo"
	refused 2 "is for allreduce, not custom" custom --algo-file "$ALGOS/ring.algo"
	refused 2 "cannot be combined with --algo" allreduce --algo-file "$ALGOS/ring.algo" --algo ring
	refused 2 "the algorithm's root is 0, but --root is 1" allreduce --algo-file "$ALGOS/ring.algo" --root 1
	refused 1 "No such file" allreduce --algo-file nowhere
	sed '/^reduce l/d; s/^  reduce l.*//' "$ALGOS/hierarchical.algo" >wrong
	refused 5 "wrong: rank 0 chunk 0 ends without the contribution of rank 4" allreduce --algo-file wrong
	echo '<algo name="x"' >wrong
	refused 5 "wrong:1: unclosed token" allreduce --algo-file wrong
	echo 'collective sum' >wrong
	refused 5 "wrong:1: unknown collective 'sum': must be" allreduce --algo-file wrong
}

@test "algofile: custom algorithms are shown" {
	cat >shift.algo <<-END
		algorithm shift
		collective custom
		ranks 3
		chunks 2
		for r in 0..1
		  copy r.in[0:2] -> (r + 1).out[0]
		end
	END
	gpuctl plan custom --algo-file shift.algo >got
	grep -q '^custom shift: ranks 3, chunks 2, out of place; digest ' got
}
