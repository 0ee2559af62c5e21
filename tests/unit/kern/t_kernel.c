/* The table of kernels and the binding of arguments. */
#include "kern/kern_impl.h"
#include "kern_test.h"

static bool
sane(const struct kernel *k)
{
	const struct kernel_param *p;
	unsigned i, j;

	if (k->name == NULL || k->summary == NULL || k->run == NULL || k->summary[0] == '\0')
		return false;
	for (i = 0; k->params[i].kind != KP_END; i++) {
		p = &k->params[i];
		if (i >= KERNEL_MAX_PARAMS || p->name == NULL || p->help == NULL ||
		    p->help[0] == '\0' || (!p->optional && p->dflt != 0))
			return false;
		if (p->kind != KP_REAL && (p->dflt < 0 || p->dflt != floor(p->dflt)))
			return false;
		if (p->kind == KP_DTYPE && p->dflt > GPUSIM_NDTYPES)
			return false;
		for (j = 0; j < i; j++) {
			if (strcmp(p->name, k->params[j].name) == 0)
				return false;
		}
	}
	return i > 0;
}

static void
table(void)
{
#define NAME(name) #name,
	static const char *const names[] = {KERNELS(NAME)};
	const size_t nnames = sizeof names / sizeof *names;
	const struct kernel *k;
	bool good = true, found = true;
	unsigned i;

	for (i = 0; (k = kernel_at(i)) != NULL; i++) {
		if (!sane(k) || kernel_find(k->name) != k) {
			printf("# %s\n", k->name);
			good = false;
		}
	}
	ok(good, "every kernel has a summary and says what each parameter is; names are unique");
	ok(i == nnames && kernel_at(UINT32_MAX) == NULL, "the table ends after %zu", nnames);
	for (i = 0; i < nnames; i++)
		found = found && kernel_find(names[i]) == kernel_at(i);
	ok(found, "every kernel has the name of its row, and is found by it");
	ok(!kernel_find("") && !kernel_find("fil") && !kernel_find("fills"), "no other name is");
}

static bool
bind_fails(const char *word, const struct kernel_arg *args, size_t nargs)
{
	union kernel_value v[KERNEL_MAX_PARAMS];
	uint64_t step[KERNEL_MAX_PARAMS];
	unsigned char before[sizeof v + sizeof step];
	struct err err = {0};
	enum rc rc;

	memset(v, 0x5a, sizeof v);
	memset(step, 0x5a, sizeof step);
	memset(before, 0x5a, sizeof before);
	rc = kernel_bind(kernel_find("axpy"), args, nargs, v, step, &err);
	if (rc == RC_INVAL && err.rc == rc && strncmp(err.text, "axpy: ", 6) == 0 &&
	    strstr(err.text, word) != NULL && memcmp(v, before, sizeof v) == 0 &&
	    memcmp(step, before, sizeof step) == 0)
		return true;
	printf("# rc %d: %s\n", (int)rc, err.text);
	return false;
}

#define XYN U("x", 1), U("y", 2), U("n", 3)

static void
bind(void)
{
	const struct kernel *k = kernel_find("axpy");
	union kernel_value v[KERNEL_MAX_PARAMS];
	uint64_t step[KERNEL_MAX_PARAMS];
	struct kernel_arg many[100], stepped = {"x", false, {.u = 1}, 64},
				     odd = {"alpha", true, {0}, 1};
	char longname[600];
	size_t i;

	stepped.value.u = 1;
	odd.value.f = 1;
	ok(kernel_bind(k, ARGS(U("n", 3), stepped, R("alpha", 2.5), U("y", 2)), v, step, NULL) ==
		   RC_OK &&
	       v[0].u == 2 && v[1].u == 1 && v[2].u == 3 && v[3].f == 2.5 && v[4].u == GPUSIM_F32,
	   "arguments go by name, whatever their order; a default fills the gap");
	ok(step[0] == 0 && step[1] == 64 && step[2] == 0 && step[3] == 0 && step[4] == 0,
	   "and so do the steps");
	ok(kernel_bind(k, ARGS(XYN), v, step, NULL) == RC_OK && v[3].f == 1, "a real's default");
	ok(kernel_bind(k, ARGS(XYN, U("alpha", UINT64_C(1) << 53)), v, step, NULL) == RC_OK &&
	       v[3].f == 0x1p53,
	   "a real takes a whole number");
	ok(bind_fails("alpha", ARGS(XYN, U("alpha", (UINT64_C(1) << 53) + 1))),
	   "but no larger than 2^53");
	ok(bind_fails("'beta'", ARGS(XYN, U("beta", 1))), "an unknown argument");
	ok(bind_fails("y is missing", ARGS(U("x", 1), U("n", 3))), "a missing one");
	ok(bind_fails("missing", NULL, 0), "none at all");
	ok(bind_fails("n is given twice", ARGS(XYN, U("n", 3))), "one given twice");
	ok(bind_fails("n: 3", ARGS(U("x", 1), U("y", 2), R("n", 3.0))), "a real for a count");
	ok(bind_fails("x: 0.5", ARGS(R("x", 0.5), U("y", 2), U("n", 3))), "a real for an address");
	ok(bind_fails("dtype: 12", ARGS(XYN, U("dtype", GPUSIM_NDTYPES))), "a type that is none");
	ok(bind_fails("alpha cannot", ARGS(XYN, odd)), "a step on a real");
	for (i = 0; i < sizeof many / sizeof *many; i++)
		many[i] = U("n", i);
	ok(bind_fails("twice", many, sizeof many / sizeof *many), "more arguments than parameters");
	memset(longname, 'z', sizeof longname);
	longname[sizeof longname - 1] = '\0';
	ok(bind_fails("zzz'", ARGS(XYN, U(longname, 1))), "a name as long as the sentence");
	k = kernel_find("gemm");
	ok(kernel_bind(k, ARGS(U("ta", 2)), v, step, &kt_err) == RC_INVAL &&
	       strstr(kt_err.text, "gemm: ta: 2") != NULL,
	   "a flag is 0 or 1");
}

int
main(void)
{
	table();
	bind();
	return tap_done();
}
