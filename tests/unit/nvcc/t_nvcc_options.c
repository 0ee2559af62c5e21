/* nvcc's command line. */
#include <string.h>

#include "nvcc/options.h"
#include "tap.h"

#define ARGS(...) ((const char *[]){"nvcc", __VA_ARGS__, NULL})

static struct nvcc n;
static struct err err;

static enum rc
read_args(const char **argv)
{
	static char *copy[64]; /* as in main(); n borrows the strings */
	int argc = 0;

	for (; argv[argc]; argc++)
		memcpy(&copy[argc], &argv[argc], sizeof *copy);
	nvcc_fini(&n);
	err = (struct err){0};
	return nvcc_options(&n, argc, copy, &err);
}

static bool
is(const struct words *w, const char *want)
{
	char all[512] = "";

	for (size_t i = 0; i < w->n; i++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "",
			 w->v[i]);
	if (strcmp(all, want) == 0)
		return true;
	printf("#   '%s', not '%s'\n", all, want);
	return false;
}

static void
test_forms(void)
{
	ok(read_args(ARGS("-c", "a.cu", "-o", "a.o", "-Ix", "-I", "y", "--include-path=z", "-DA=1",
			  "-D", "B", "--define-macro", "C", "-isystem", "s", "-isystem=t")) ==
		   RC_OK &&
	       n.phase == NVCC_COMPILE && strcmp(n.out, "a.o") == 0 && is(&n.inputs, "a.cu") &&
	       is(&n.pre, "-Ix -Iy -Iz -DA=1 -DB -DC -isystem s -isystem t"),
	   "values come joined, apart, behind =, by short and long names");
	ok(read_args(ARGS("-Xcompiler", "-Wall,-Wextra -O1", "--compiler-options=-fPIC,-D\\,x",
			  "-O3", "-g", "-w", "-Werror=all-warnings")) == RC_OK &&
	       is(&n.host, "-Wall -Wextra -O1 -fPIC -D,x -O3 -g -w -Werror") && n.optimised,
	   "what is for the host compiler is split at commas and blanks");
	ok(read_args(ARGS("a.o", "-lx", "-L", "d", "-Xlinker", "-rpath,$ORIGIN", "b.o", "-shared",
			  "-cudart", "none")) == RC_OK &&
	       is(&n.link, "a.o -lx -Ld -Xlinker -rpath -Xlinker $ORIGIN b.o") && n.shared &&
	       n.no_cudart,
	   "the linker's words keep their order");
	ok(read_args(ARGS("-gencode=arch=compute_80,code=sm_80", "-gencode", "x", "-arch", "sm_90",
			  "--expt-extended-lambda", "-Xptxas", "-v", "-Xcudafe=--diag_suppress=1",
			  "-lineinfo", "--expt-relaxed-constexpr", "-maxrregcount=96", "-t4",
			  "-std=c++14", "-ccbin", "clang++", "-rdc=true")) == RC_OK &&
	       n.inputs.n == 0 && n.lambdas && n.relocatable && strcmp(n.std, "c++14") == 0 &&
	       strcmp(n.ccbin, "clang++") == 0,
	   "what is for a GPU is taken");
	ok(read_args(ARGS("-MMD", "-MF", "a.d", "-MT", "t", "-MP", "-c", "a.cu")) == RC_OK &&
	       n.phase == NVCC_COMPILE && strcmp(n.depends, "-MMD") == 0 &&
	       strcmp(n.depends_file, "a.d") == 0 && is(&n.targets, "t") && n.depends_phony,
	   "dependencies beside an object");
	ok(read_args(ARGS("-M", "a.cu")) == RC_OK && n.phase == NVCC_DEPENDS, "dependencies alone");
	ok(read_args(ARGS("--forward-unknown-to-host-compiler", "-pthread", "-Wl,-s")) == RC_OK &&
	       is(&n.host, "-pthread -Wl,-s"),
	   "unknown options go to the host compiler if they are meant to");
}

static void
test_file(void)
{
	char name[] = "/tmp/t_nvcc_XXXXXX", at[64];
	int fd = mkstemp(name);
	FILE *f = fdopen(fd, "w");

	fputs("-DA\n-o out a.cu", f);
	fclose(f);
	snprintf(at, sizeof at, "@%s", name);
	ok(read_args(ARGS(at, "b.cu")) == RC_OK && is(&n.inputs, "a.cu b.cu") &&
	       strcmp(n.out, "out") == 0 && is(&n.pre, "-DA"),
	   "options come from a file");
	f = fopen(name, "w");
	fputs(at, f);
	fclose(f);
	ok(read_args(ARGS("-optf", name)) == RC_INVAL && strstr(err.text, "each other"),
	   "a file of options that names itself is refused");
	remove(name);
	ok(read_args(ARGS("--options-file", name)) == RC_FAILED && strstr(err.text, name),
	   "a file that is not there is named");
}

static void
test_refusals(void)
{
	ok(read_args(ARGS("-frob")) == RC_INVAL && strstr(err.text, "-Xcompiler -frob"),
	   "an unknown option is refused, and the way around it told");
	ok(read_args(ARGS("-ptx", "a.cu")) == RC_INVAL && strstr(err.text, "-ptx"),
	   "code for a GPU is refused");
	ok(read_args(ARGS("-c", "-o")) == RC_INVAL && strstr(err.text, "needs a value"),
	   "a missing value is told");
	ok(read_args(ARGS("--shared=1")) == RC_INVAL && strstr(err.text, "no value"),
	   "a value too many is told");
	ok(read_args(ARGS("-cudart", "half")) == RC_INVAL && strstr(err.text, "half"),
	   "-cudart takes three words");
}

int
main(void)
{
	test_forms();
	test_file();
	test_refusals();
	nvcc_fini(&n);
	return tap_done();
}
