# HACKING.md, "How to add": each recipe is followed in a copy of the tree, and what was added works; a step left out is
# reported by whom HACKING says. The files that a recipe's function changes must be those that HACKING lists.
#
# The recipes follow each other in one tree, which is compiled once: from the objects of this build, without optimisation,
# only what changed.
# shellcheck disable=SC1003,SC2016,SC2154
load helper

# ---- editing: an anchor that is missing is a failure

# anchor FILE REGEX - the number of the first line that matches
anchor() {
	local line
	line=$(grep -nE -m 1 -e "$2" "$1" | cut -d : -f 1)
	[[ -n $line ]] || { echo "$1: no line matches $2"; return 1; }
	echo "$line"
}

# after FILE REGEX TEXT - lines after the first that matches
after() {
	local line
	line=$(anchor "$1" "$2") || { echo "$line" >&2; return 1; }
	printf '%s\n' "$3" >text.tmp
	sed -i -e "${line}r text.tmp" "$1"
	rm text.tmp
}

# before FILE REGEX TEXT - lines before the first that matches
before() {
	local line
	line=$(anchor "$1" "$2") || { echo "$line" >&2; return 1; }
	printf '%s\n' "$3" >text.tmp
	{ head -n $((line - 1)) "$1" && cat text.tmp && tail -n "+$line" "$1"; } >file.tmp
	cat file.tmp >"$1"
	rm text.tmp file.tmp
}

# row FILE REGEX TEXT - a row after the first that matches, in a list that is a macro: all lines but its last end with \
row() {
	local line
	line=$(anchor "$1" "$2") || { echo "$line" >&2; return 1; }
	if [[ $(sed -n "${line}p" "$1") == *\\ ]]; then
		after "$1" "$2" "$3 \\"
	else
		after "$1" "$2" "$3"
		sed -i "${line}s/\$/ \\\\/" "$1"
	fi
}

# amend FILE REGEX SED - change the first line that matches
amend() {
	local line
	line=$(anchor "$1" "$2") || { echo "$line" >&2; return 1; }
	sed -i -E "${line}$3" "$1"
}

# add_test FILE NAME - a test with the body of standard input
add_test() {
	printf '\n@%s "%s" {\n' test "$2"
	cat
	echo '}'
} >>"$1"

# ---- the recipes: one function each, in the order of HACKING.md's sections

RECIPES=(
	'reduction:A reduction' 'option:An option of a daemon'
	'verb:A verb of gpuctl with a counter of the coordinator' 'metric:A metric with a label'
	'kernel:A kernel' 'algorithm:An algorithm of a collective' 'nccl_call:An NCCL call' 'cuda_call:A CUDA call'
)

# absmax: of two elements the one with the larger magnitude; of equal ones the one that is not negative
follow_reduction() {
	after include/gpusim.h 'GPUSIM_BXOR = 8,' '	GPUSIM_ABSMAX = 9,'
	tests/lint/abi -u
	after proto/gpu_sim.proto '^  BXOR = 8;' '  ABSMAX = 9;'
	row lib/device/mem/redop.h 'ROW\(BXOR,' '	ROW(ABSMAX,    absmax,    absmax, ANY, EXACT, false, 0,  127, __VA_ARGS__)'
	after lib/device/mem/reduce_isa.c '^DTYPES\(UNALIGNED\)' '
#define MAGNITUDE(x, utype) ((utype)((x) < 1 ? 0u - (utype)(x) : (utype)(x)))
#define LARGER(x, y, p, q, first) ((p) > (q) || ((p) == (q) && (first)) ? (x) : (y))'
	row lib/device/mem/reduce_isa.c 'FOLD\(max_##name, type' \
		'	FOLD(absmax_##name, type, LARGER(x, y, MAGNITUDE(x, utype), MAGNITUDE(y, utype), x > y))'
	row lib/device/mem/reduce_isa.c 'FLOAT_MINMAX\(max_##name' \
		'	FOLD(absmax_##name, type, x != x ? x : LARGER(x, y, __builtin_fabs(x), __builtin_fabs(y), __builtin_signbit(y)))'
	amend lib/device/mem/reduce_isa.c '^#define LOOPS_NUMBERS' 's/ROW\(max, name\)/& ROW(absmax, name)/'
	amend lib/device/mem/reduce_isa.c '^#define LOOPS_SIGNED' 's/LOOP\(max, name\)/& LOOP(absmax, name)/'
	after lib/device/mem/reduce_isa.c '^#define SIGNLESS_max' '#define SIGNLESS_absmax(name) LOOP_OF(absmax, name)'
	after lib/device/mem/number.c 'return -lesser\(-a, -b\);' '	case GPUSIM_ABSMAX:
		return isnan(a) || fabs(a) > fabs(b) || (fabs(a) == fabs(b) && signbit(b)) ? a : b;'
	after lib/device/mem/number.c 'return less \? b : a;' '	case GPUSIM_ABSMAX: {
		uint64_t x = is_signed && (int64_t)a < 0 ? -a : a, y = is_signed && (int64_t)b < 0 ? -b : b;

		return x > y || (x == y && !less) ? a : b;
	}'
	amend man/gpusim-types.7 '^\.Cm sum prod .* bxor' 's/ bxor/& absmax/'
}

# gpucoord --welcome
follow_option() {
	after cmd/gpucoord/options.h 'char listen\[NET_ADDR_MAX\];' '	const char *welcome; /* NULL: none */'
	before cmd/gpucoord/options.c '^    \{"insecure", NULL' '    {"welcome", "TEXT", "log a line when ready", AS_ANY_STRING(welcome)},'
	before cmd/gpucoord/main.c '^		daemon_ready\(' '		if (p.o.welcome)
			log_say(LOG_WARN, LOG_INIT, "%s", p.o.welcome);'
	before man/gpucoord.8 '^\.It Fl -insecure' '.It Fl -welcome Ar text
Log a line when ready.'
	add_test tests/bats/coordfile.bats 'welcome: a line when ready, from a file' <<-'END'
		printf '[coordinator]\nwelcome = good morning\n' >conf
		ready coord gpucoord -c conf --listen "ipc://$T/coord" --state none
		grep -q 'good morning$' coord.log
	END
}

# gpuctl goodbyes: the communicators that were destroyed
follow_verb() {
	after proto/gpu_sim.proto '^  uint64 commsMade = 65;' '  uint64 goodbyes = 66;  // communicators that clients have destroyed'
	row lib/coordinator/coord/core/core.h 'ONE\(beats_missed, beatsmissed\)' '	ONE(goodbyes, goodbyes)'
	after lib/coordinator/coord/comm/comms.c 'return comm_leave\(c, comm, req->commdestroy->rank' '	c->counts.goodbyes++;'
	before cmd/gpuctl/verbs.inc '^VERB\(LOOK, run_devices' 'VERB(LOOK, run_goodbyes, "goodbyes", "[--json]", "count the communicators that clients have destroyed",
     "json", 0, 0)'
	cat >cmd/gpuctl/goodbyes.c <<-'END'
		/* gpuctl goodbyes - print how many communicators clients have destroyed. */
		#include <inttypes.h>
		#include <stdio.h>

		#include "cli.h"
		#include "client/recorder.h"

		enum rc
		run_goodbyes(struct cli *cli, const struct args *a, struct err *err)
		{
			GpuSim__Reply *reply = NULL;
			enum rc rc = cli_open(cli, err);

			if (rc == RC_OK)
				rc = api(client_status(cli->g, &reply), err);
			if (rc == RC_OK)
				printf(a->json ? "{\"goodbyes\":%" PRIu64 "}\n" : "%" PRIu64 "\n", reply->status->goodbyes);
			wire_reply_free(reply);
			return rc;
		}
	END
	before man/gpuctl.1 '^\.It Cm events Oo Fl -follow' '.It Cm goodbyes Op Fl -json
Count the communicators that clients have destroyed.'
	before man/gpuctl.1 '^\.It Cm events$' '.It Cm goodbyes
.Li goodbyes .'
	before tests/unit/coord/t_coord_counts.c '^int$' 'static void
t_goodbyes(void)
{
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	h_destroy(&h, 9, h_comm(&h, 9, 2));
	ok(status(&h)->goodbyes == 1, "a communicator that is destroyed is counted");
	h_fini(&h);
}
'
	after tests/unit/coord/t_coord_counts.c '^	t_heartbeats\(\);' '	t_goodbyes();'
	add_test tests/bats/gpuctl.bats 'goodbyes: communicators that were destroyed' <<-'END'
		run bounded gpuctl run -n 2 -- sh -c 'gpuctl comm-destroy "$(gpuctl comm-init -n 2)"; gpuctl goodbyes'
		assert_output 1
	END
}

# gpusim_communicators_by_policy_total{policy}
follow_metric() {
	after proto/gpu_sim.proto '^  uint64 goodbyes = 66;' '  repeated uint64 madeByPolicy = 67;  // communicators, by OnFailure'
	row lib/coordinator/coord/core/core.h 'EACH\(event, eventcounts, event_kind\)' '	EACH(made_by_policy, madebypolicy, on_failure)'
	after lib/coordinator/coord/comm/make.c '^	c->comms->last\+\+;' '	c->counts.made_by_policy[comm->on_failure]++;'
	before lib/observe/view/metrics.c '^	family\(t, "gpusim_heartbeats_missed"' '	family(t, "gpusim_communicators_by_policy", "counter", "Communicators so far, by policy.");
	for (size_t i = 0; i < r->n_madebypolicy; i++)
		sample(t, r->madebypolicy[i], "policy=\"%s\"", wire_policy_name((int)i));'
	before man/gpucoord.8 '^\.It Li gpusim_heartbeats_missed_total' '.It Li gpusim_communicators_by_policy_total Ns Brq policy
Communicators so far.'
	before tests/unit/coord/t_coord_counts.c '^int$' 'static void
t_policies(void)
{
	struct harness h;

	h_init(&h);
	h_devices(&h, 2);
	h.policy = GPUSIM_ON_FAILURE_SHRINK;
	h_comm(&h, 9, 2);
	ok(status(&h)->n_madebypolicy == 4 && status(&h)->madebypolicy[GPUSIM_ON_FAILURE_SHRINK] == 1,
	   "a communicator is counted, by its policy");
	h_fini(&h);
}
'
	after tests/unit/coord/t_coord_counts.c '^	t_heartbeats\(\);' '	t_policies();'
	before tests/unit/view/t_metrics.c '^	s->status.comms = s->comms;' '	static uint64_t made[] = {0, 8};

	s->status.madebypolicy = made;
	s->status.n_madebypolicy = 2;'
	after tests/unit/view/t_metrics.c 'ok\(is_described\(text, false\)' '	ok(has(text, "gpusim_communicators_by_policy_total{policy=\"shrink\"} 8"), "by policy");'
}

# negate: y[i] = -x[i]
follow_kernel() {
	row lib/device/kern/kern_impl.h 'ROW\(sgd\) ROW\(adam\)' '	ROW(negate)'
	cat >lib/device/kern/kern_negate.c <<-'END'
		/* kern_negate.c - the opposite numbers of a vector. */
		#include "kern/kern_impl.h"

		enum { NEGATE_Y, NEGATE_X, NEGATE_N };

		static enum rc
		negate_run(struct kern_call *call)
		{
			size_t n = call->v[NEGATE_N].u;
			float *y = kern_at(call, NEGATE_Y, n, 1, sizeof *y);
			const float *x = kern_at(call, NEGATE_X, n, 1, sizeof *x);

			kern_inplace(call, NEGATE_Y, NEGATE_X);
			for (size_t i = 0; call->rc == RC_OK && i < n; i++)
				y[i] = -x[i];
			return call->rc;
		}

		const struct kernel kernel_negate = {
		    .name = "negate",
		    .summary = "change the sign of every element",
		    .params =
			{
			    [NEGATE_Y] = {"y", KP_ADDR, false, 0, "[n] out"},
			    [NEGATE_X] = {"x", KP_ADDR, false, 0, "[n] in"},
			    [NEGATE_N] = {"n", KP_COUNT, false, 0, "number of elements"},
			},
		    .run = negate_run,
		};
	END
	before man/gpusim-kernels.7 '^\.It Ic scale' '.It Ic negate
Change the sign of every element.
.Bl -tag -width weight_decay -compact
.It Cm y
[n] out
.It Cm x
[n] in
.It Cm n
number of elements
.El'
	cat >tests/unit/kern/t_kern_negate.c <<-'END'
		/* negate against a loop. */
		#include "kern_test.h"

		int
		main(void)
		{
			bool good = true;
			uint64_t x, y;

			kt_open();
			x = kt_vector(9, 4);
			y = kt_vector(9, 4);
			good = kt_run("negate", ARGS(U("y", y), U("x", x), U("n", 9))) == RC_OK;
			for (size_t i = 0; i < 9; i++)
				good = good && kt_get(y, i, 4) == -kt_get(x, i, 4);
			ok(good, "negate");
			ok(kt_sweep("negate", NULL, ARGS(U("y", y), U("x", x), U("n", 9))), "refuses bad arguments");
			kt_close();
			return tap_done();
		}
	END
}

# allgather pairwise: each part goes to each rank
follow_algorithm() {
	cat >lib/plan/coll/allgather_pairwise.c <<-'END'
		/* allgather_pairwise.c - allgather, the own part to another rank in each round. */
		#include "coll/algo.h"

		/* plan_allgather_pairwise - round t-1: rank r sends its part to rank r+t, and receives that of rank r-t. */
		void
		plan_allgather_pairwise(const struct plan_args *a, struct plan *out)
		{
			struct span own = part_of(a, a->rank);

			for (uint32_t t = 1; t < a->nranks; t++) {
				uint32_t to = rank_after(a, t), from = rank_before(a, t);

				plan_exchange(a, out, step_send(PLAN_IN, first(own.count), to, t - 1),
					      step_recv(PLAN_OUT, part_of(a, from), from, t - 1));
			}
			plan_local(out, step_copy(PLAN_IN, 0, PLAN_OUT, own, a->nranks - 2));
		}
	END
	after lib/plan/coll/algo.h 'ROW\(ALLGATHER, "bruck", plan_allgather_bruck' '	ROW(ALLGATHER, "pairwise", plan_allgather_pairwise, "the own part to each rank") \'
	after lib/plan/coll/cost.c '^FORM\(alltoall_pairwise,' 'FORM(allgather_pairwise, all_to_all(a, m, part(a), 0) + m->gamma_us * part(a))'
	after lib/plan/coll/cost.c '^	ROW\(ALLGATHER, "naive",' '	ROW(ALLGATHER, "pairwise", allgather_pairwise, SLOW),'
	after man/gpusim-algorithms.7 '^n\(p-1\)/p elements in log2 p rounds, any p' '.It Cm pairwise
n(p-1)/p elements in p-1 rounds'
	cat >tests/unit/coll/t_coll_pairwise.c <<-'END'
		/* Allgather, pairwise: right for every shape, at its cost. */
		#include "coll_sweep.h"

		static struct plan_counts
		cost(const struct plan_args *a)
		{
			struct plan_counts c = {.rounds = a->nranks - 1};

			for (uint32_t r = 0; r < a->nranks; r++) {
				uint64_t own = part_size(a, r), others = a->nranks - 1;

				add_rank(&c, others * nmessages(a, own), others * own, a->nelem - own);
			}
			return c;
		}

		int
		main(void)
		{
			check_algo(GPUSIM_ALLGATHER, "pairwise", cost);
			return tap_done();
		}
	END
}

follow_nccl_call() {
	after include/nccl/nccl.h '^NCCL_CALL\(ncclResult_t, ncclCommCount' 'NCCL_CALL(ncclResult_t, ncclCommIsAlone, (const ncclComm_t comm, int *alone));'
	cat >>lib/cuda/nccl/comm.c <<-'END'

		ncclResult_t
		ncclCommIsAlone(const ncclComm_t comm, int *alone)
		{
			int n = 0;
			ncclResult_t e = ncclCommCount(comm, &n);

			if (e == ncclSuccess && !alone)
				return nccl_fail(ncclInvalidArgument, "CommIsAlone : alone argument is NULL");
			if (e == ncclSuccess)
				*alone = n == 1;
			return e;
		}
		NCCL_ALIAS(ncclCommIsAlone);
	END
	after tests/nccl/nccl_arguments.c 'NCCL\(ncclCommCount\(w.comm\[0\], &all\)\);' '	WANT(ncclInvalidArgument, ncclCommIsAlone(w.comm[0], NULL));
	says("CommIsAlone");
	NCCL(pncclCommIsAlone(w.comm[0], &n));
	CHECK(n == (all == 1));'
}

follow_cuda_call() {
	after include/nccl/cuda_runtime_api.h '^cudaError_t cudaRuntimeGetVersion' 'cudaError_t cudaDeviceIsLast(int *last, int device);'
	cat >>lib/cuda/cudart/device.c <<-'END'

		cudaError_t
		cudaDeviceIsLast(int *last, int device)
		{
			cudaError_t e = cuda_enter();

			if (!last)
				return cuda_done(cudaErrorInvalidValue);
			*last = e == cudaSuccess && device == cuda_device_count() - 1;
			return cuda_done(e);
		}
	END
	before tests/nccl/cu_basic.c 'CU\(cudaRuntimeGetVersion\(&value\)\);' '	FAILS(cudaDeviceIsLast(NULL, 0), cudaErrorInvalidValue);
	CU(cudaDeviceIsLast(&value, 1));
	CHECK(value == 1);'
}

# ---- the copy of the tree

# tree_make TARGET... - in the copy, without the options of the make that runs these tests
tree_make() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u BUILD -u WERROR make -s -C "$TREE" BUILD=build MPI=0 CFLAGS=-O0 "$@"
}

# unneeded HEADER WORDS - its change concerns only the sources that have the words: the others are not compiled again
unneeded() {
	local file
	grep -rlE --include='*.[ch]' -e "$2" "$TREE"/{lib,cmd,tests} | sed "s|^$TREE/||; s|\.c\$|.o|" | while read -r file; do
		rm -f "$TREE/build/obj/$file"
	done
	touch -r "$ROOT/LICENSE" "$TREE/$1"
}

copy_tree() {
	mkdir -p "$TREE/build/unit" "$TREE/build/nccl"
	(cd "$ROOT" && cp -a --parents Makefile ./*.md LICENSE cmd examples include lib man proto tests tools "$TREE")
	cp -a "$BUILD"/{obj,gen,nng.o} "$TREE/build"
	find "$TREE/build" -name '*.d' -exec sed -i "s|$BUILD/|build/|g; s|${BUILD#"$ROOT/"}/|build/|g" {} +
}

# follow NAME - its function, and the list of the files that it has changed
follow() {
	touch stamp.tmp
	until touch probe.tmp && [[ probe.tmp -nt stamp.tmp ]]; do :; done # the file system's clock has moved on
	"follow_$1" || return
	find . -path ./build -prune -o -type f -newer stamp.tmp -print | sed 's|^\./||' | grep -v '\.tmp$' | sort >"$BATS_FILE_TMPDIR/$1.changed"
	rm stamp.tmp probe.tmp
}

setup_file() {
	local recipe
	house_setup
	export TREE=$BATS_FILE_TMPDIR/tree
	sanitizers
	if [[ ${#SANITIZE[@]} -gt 0 ]]; then
		echo 'the objects are those of a sanitizer' >"$BATS_FILE_TMPDIR/why"
	elif ! compile -dumpmachine | grep -q "^$(uname -m)" || [[ ! -e $BUILD/obj/lib/device/mem/redop.o ]]; then
		echo 'this build has no objects to begin with' >"$BATS_FILE_TMPDIR/why"
	else
		copy_tree
		cd "$TREE" || return
		for recipe in "${RECIPES[@]}"; do follow "${recipe%%:*}" || return; done
		unneeded include/gpusim.h 'REDOPS|redops\b|reduce_isa\.h'
		tree_make build/gen/gpu_sim.pb-c.h
		unneeded build/gen/gpu_sim.pb-c.h 'StatusResponse|status_response|STATUS_RESPONSE'
		unneeded proto/gpu_sim.proto 'REDUCE_OP__'
		unneeded lib/device/mem/redop.h 'REDOPS|redops\b'
		unneeded lib/device/kern/kern_impl.h '\bKERNELS\('
		unneeded lib/plan/coll/algo.h 'PLAN_ALGOS'
		unneeded cmd/gpuctl/verbs.inc 'VERB\('
		unneeded include/nccl/nccl.h CommIsAlone
		unneeded include/nccl/cuda_runtime_api.h cudaDeviceIsLast
		tree_make build/bin/{gpudev,gpucoord,gpuctl} build/nccl/lib/{libnccl.so,libcudart.so} build/e2e/nccl/{nccl_arguments,cu_basic} \
			build/nccl/include/{nccl,cuda_runtime_api}.h
	fi
	house_teardown
}

setup() {
	[[ ! -e $BATS_FILE_TMPDIR/why ]] || skip "$(<"$BATS_FILE_TMPDIR/why")"
	house_setup
	BUILD=$TREE/build PATH=$TREE/build/bin:$PATH
}

# ---- who reports

# named FILE NAME - the tests of a bats file of the copy whose names have NAME; at least one
named() {
	env -i HOME="$HOME" PATH="${PATH//"$BATS_LIBEXEC:"/}" PATIENCE="$PATIENCE" BUILD="$TREE/build" CC="${CC:-cc}" \
		bats -f "$2" "$TREE/tests/bats/$1.bats" 3>&- >named.out 2>&1 || { cat named.out; return 1; }
	grep -q '^ok 1 ' named.out || { cat named.out; return 1; }
}

# unit ROOM/NAME [OBJECT...] - the unit test alone, as its room has it. `without` calls it where a failure does not end it.
unit() {
	local libs o=build/obj/tests/unit/$1.o
	rm -f "$T/unit"
	tree_make build/libhouse.a "$o" "${@:2}" || return
	libs=$(tree_make --eval='.PHONY: libs' --eval='libs: ; @echo $(image_libs) $(grpc_libs) $(http_libs) $(algo_libs) $(house_libs)' libs)
	# shellcheck disable=SC2086
	(cd "$TREE" && compile -pthread -o "$T/unit" "$o" "${@:2}" build/libhouse.a -Wl,--defsym=main="${1##*/}_main" \
		-Wl,--as-needed -lopenblas -lcjson $libs) || return
	./unit >unit.out 2>&1 || { grep -v '^ok' unit.out; return 1; }
}

# syntax FILE.c - what the compiler says of it
syntax() { tree_make WERROR=1 "$1.syntax"; }

# links PROGRAM - anew; afterwards the program and the library are as they were
links() {
	local status=0
	cp -p "$TREE/build/bin/$1" "$TREE/build/libhouse.a" "$T"
	rm "$TREE/build/bin/$1" "$TREE/build/libhouse.a"
	tree_make "build/bin/$1" || status=$?
	cp -p "$T/$1" "$TREE/build/bin/$1"
	cp -p "$T/libhouse.a" "$TREE/build/libhouse.a"
	return $status
}

# without FILE SED TEXT CMD... - CMD fails, and says TEXT, when SED has undone a step in the file; SED -: without the file
without() {
	local file=$TREE/$1 status=0
	cp -p "$file" kept
	touch kept.ref
	if [[ $2 == - ]]; then
		rm "$file"
	else
		sed -i -E "$2" "$file"
		not cmp -s kept "$file" || fail "$2 changes nothing in $1"
	fi
	"${@:4}" >without.out 2>&1 || status=$?
	cp -p kept "$file"
	[[ ! $TREE/build/obj/${1%.c}.o -nt kept.ref ]] || touch "$file" # it was compiled
	((status != 0)) || fail "nothing reports what is missing in $1"
	grep -q -e "$3" without.out || fail "expected: $3"$'\n'"got: $(cat without.out)"
}

# ---- the tests

@test "each recipe changes the files that HACKING.md lists, and no others" {
	local recipe file path pattern
	for recipe in "${RECIPES[@]}"; do
		awk -v title="### ${recipe#*:}" '/^##/ { on = $0 == title } on && /^[0-9]+\. /' "$ROOT/HACKING.md" |
			sed -E 's/^[0-9]+\. (`[^`]*`):.*/\1/' | grep -o '^`[^`]*`$' | tr -d '`' >listed
		at_least "$(wc -l <listed)" 3
		cp listed left
		while read -r file; do
			path=
			while read -r pattern; do
				# shellcheck disable=SC2053
				[[ $path == "$file" || $file != $(sed -E 's/COLLECTIVE|NAME|ROOM|FILE/*/g' <<<"$pattern") ]] || path=$pattern
			done <left
			[[ -n $path ]] || fail "${recipe#*:}: HACKING.md does not list $file"
			grep -vxF "$path" left >rest || true
			mv rest left
		done <"$BATS_FILE_TMPDIR/${recipe%%:*}.changed"
		[[ ! -s left ]] || fail "${recipe#*:}: listed, but not changed: $(xargs <left)"
	done
}

@test "a reduction: gpuctl allreduce --op absmax, of floats and integers; its checks" {
	run bounded gpuctl run -n 2 -- bash -c 'for type in f64 bf16 f8e4m3 i8 i64; do
		printf "1 -9 3\n-2 8 -3\n" | gpuctl allreduce --op absmax --type $type; done'
	assert_status 0
	assert_equal "$(sort -u <<<"$output")" '-2 -9 3'
	unit mem/t_dtype
	unit mem/t_reduce
	named docs 'lists types and reductions'
	(cd "$TREE" && tests/lint/abi)
}

@test "a reduction: what is forgotten is reported" {
	without include/gpusim.h /ABSMAX/d GPUSIM_ABSMAX syntax lib/device/mem/redop.c
	without lib/device/mem/redop.h '/ROW\(ABSMAX/d; s/(ROW\(BXOR.*\)) \\$/\1/' 'each constant of enum gpusim_redop has a row' syntax lib/device/mem/redop.c
	without lib/device/mem/reduce_isa.c '/FOLD\(absmax.*x != x/d' absmax_f32 syntax lib/device/mem/reduce_isa.c
	without lib/device/mem/reduce_isa.c '/FOLD\(absmax.*MAGNITUDE/d' absmax_i8 syntax lib/device/mem/reduce_isa.c
	without lib/device/mem/reduce_isa.c 's/ ROW\(absmax, name\)//' absmax_u8 syntax lib/device/mem/reduce_isa.c
	without lib/device/mem/reduce_isa.c '/SIGNLESS_absmax/d' SIGNLESS_absmax syntax lib/device/mem/reduce_isa.c
	without lib/device/mem/number.c '/case GPUSIM_ABSMAX:$/,+1d' GPUSIM_ABSMAX syntax lib/device/mem/number.c
	without lib/device/mem/number.c '/case GPUSIM_ABSMAX: \{$/,+4d' GPUSIM_ABSMAX syntax lib/device/mem/number.c
	without build/gen/gpu_sim.pb-c.h '/REDUCE_OP__ABSMAX/d' REDUCE_OP__ABSMAX syntax lib/clients/client/ops.c
	without include/gpusim.abi /ABSMAX/d GPUSIM_ABSMAX "$TREE/tests/lint/abi"
	without man/gpusim-types.7 's/ absmax//' 'gpusim-types.7 does not have the list of --op' named docs 'lists types and reductions'
}

@test "an option: its key acts; what is forgotten is reported" {
	named coordfile welcome
	named coordfile 'is a key, and counts'
	named docs 'describe every option'
	without cmd/gpucoord/options.h /welcome/d welcome syntax cmd/gpucoord/options.c
	without cmd/gpucoord/options.h 's/const (char \*welcome)/\1/' 'error:' syntax cmd/gpucoord/options.c
	without man/gpucoord.8 '/Fl -welcome/,+1d' 'does not describe --welcome' named docs 'describe every option'
	without cmd/gpucoord/options.c /welcome/d "no option 'welcome'" key_acts
	tree_make build/bin/gpucoord
}
key_acts() {
	tree_make build/bin/gpucoord
	named coordfile welcome
}

@test "a verb with a counter: it answers; what is forgotten is reported" {
	named gpuctl '^goodbyes'
	unit coord/t_coord_counts build/obj/tests/unit/coord_harness.o build/obj/cmd/gpucoord/keep.o
	without build/gen/gpu_sim.pb-c.h '/uint64_t goodbyes;/d' goodbyes syntax lib/coordinator/coord/status.c
	without lib/coordinator/coord/core/core.h '/ONE\(goodbyes/d; s/(ONE\(beats.*) \\$/\1/' goodbyes syntax lib/coordinator/coord/comm/comms.c
	without cmd/gpuctl/verbs.inc '/run_goodbyes/,+1d' run_goodbyes syntax cmd/gpuctl/goodbyes.c
	without cmd/gpuctl/goodbyes.c - run_goodbyes links gpuctl
	without man/gpuctl.1 '/Cm goodbyes Op/,+1d' 'does not describe goodbyes' named docs 'describe every option'
	without man/gpuctl.1 '/^\.Li goodbyes/d' 'no page of gpuctl names goodbyes' named docs 'name every key of JSON'
}

@test "a metric with a label: it is in /metrics; what is forgotten is reported" {
	unit view/t_metrics
	named metrics 'the manual lists all of it'
	without man/gpucoord.8 /communicators_by_policy/d 'no gpusim_communicators_by_policy' named metrics 'the manual lists all of it'
	without build/gen/gpu_sim.pb-c.h '/madebypolicy;/d' madebypolicy syntax lib/coordinator/coord/status.c
	without lib/coordinator/coord/core/core.h '/made_by_policy/d' made_by_policy syntax lib/coordinator/coord/comm/make.c
}

@test "a kernel: gpuctl launch runs it; what is forgotten is reported" {
	run bounded gpuctl run -n 1 -- bash -c 'x=$(gpuctl malloc --device 0 8) && printf "\0\0\200\77" | gpuctl memcpy - 0:$x &&
		gpuctl launch --device 0 negate x=$x y=$x n=1 && gpuctl memcpy 0:$x:4 - | od -An -tf4 | xargs'
	assert_status 0
	assert_output -1
	unit kern/t_kern_negate
	named docs 'lists the kernels and their arguments'
	without lib/device/kern/kern_negate.c - kernel_negate links gpudev
	without lib/device/kern/kern_negate.c 's/"negate"/"negative"/' 'not ok .* name of its row' unit kern/t_kernel
	without man/gpusim-kernels.7 '/^\.It Ic negate/,+8d' negate named docs 'lists the kernels and their arguments'
}

@test "an algorithm: plan, bench and its checks take it; what is forgotten is reported" {
	gpuctl plan allgather -n 3 --algo pairwise >/dev/null
	run bounded gpuctl run -n 3 -- gpuctl bench allgather -n 3 -b 1K -e 64K -f 8 --iters 2 --algo pairwise
	assert_status 0
	assert_match pairwise
	unit coll/t_coll_pairwise
	named docs 'lists the algorithms'
	without lib/plan/coll/allgather_pairwise.c - plan_allgather_pairwise links gpuctl
	without lib/plan/coll/cost.c '/ROW\(ALLGATHER, "pairwise"/d' 'not ok .*allgather pairwise has a closed form' unit coll/t_simulate
	without man/gpusim-algorithms.7 '/^n\(p-1\)\/p elements in log2 p rounds, any p/,+2{/pairwise/,+1d}' pairwise named docs 'lists the algorithms'
}

@test "NCCL and CUDA calls: programs link and run; what is forgotten is reported" {
	run bounded gpuctl run --nccl -n 3 -- "$BUILD/e2e/nccl/nccl_arguments"
	assert_status 0
	run bounded gpuctl run --nccl -n 2 -- "$BUILD/e2e/nccl/cu_basic"
	assert_status 0
	named nccl-home 'declare what the libraries have'
	without include/nccl/nccl.h /CommIsAlone/d ncclCommIsAlone syntax lib/cuda/nccl/comm.c
	without include/nccl/cuda_runtime_api.h /cudaDeviceIsLast/d cudaDeviceIsLast syntax lib/cuda/cudart/device.c
	without lib/cuda/nccl/comm.c '/ALIAS\(ncclCommIsAlone/d' pncclCommIsAlone names
	tree_make build/nccl/lib/libnccl.so
}
names() {
	tree_make build/nccl/lib/libnccl.so
	named nccl-home 'declare what the libraries have'
}
