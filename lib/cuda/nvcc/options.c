/* nvcc's options, as NVIDIA's manual of CUDA 12 lists them, in one table. */
#include "nvcc/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/must.h"

enum kind {
	FLAG,	/* sets the bool at `at` */
	PHASE,	/* the phase is `value` */
	STRING, /* takes a value: the string at `at` */
	LIST,	/* takes a value: appended to the list at `at`, after `prefix` */
	PARTS,	/* as LIST, split at commas */
	DEPENDS,
	ONCE,	 /* no value: `prefix` goes to the list at `at` */
	IGNORED, /* concerns a GPU, or messages of NVIDIA's compiler */
	IGNORED_VALUE,
	SPECIAL, /* selected by `value` */
	SPECIAL_VALUE,
	REFUSED, /* `prefix` is the reason */
};

enum special { CUDART, STREAM, RDC, WERROR, OPTIMISE, OPTION_FILE, DEBUG_DEVICE, DRY, WARN };

struct option {
	const char *name, *other; /* without dashes */
	enum kind kind;
	size_t at;
	const char *prefix;
	int value;
	bool joined; /* its value may follow directly: -Ifolder */
};

#define AT(field) offsetof(struct nvcc, field)
#define GPU_CODE                                                                                   \
	"makes code for a GPU, which is not simulated; this nvcc makes programs that run kernels " \
	"on the CPU"

static const struct option table[] = {
    /* phases */
    {"compile", "c", PHASE, 0, NULL, NVCC_COMPILE, false},
    {"device-c", "dc", PHASE, 0, NULL, NVCC_COMPILE, false},
    {"device-w", "dw", PHASE, 0, NULL, NVCC_COMPILE, false},
    {"device-link", "dlink", PHASE, 0, NULL, NVCC_DEVICE_LINK, false},
    {"link", "link", PHASE, 0, NULL, NVCC_LINK, false},
    {"lib", "lib", PHASE, 0, NULL, NVCC_ARCHIVE, false},
    {"preprocess", "E", PHASE, 0, NULL, NVCC_PREPROCESS, false},
    {"generate-dependencies", "M", DEPENDS, 0, "-M", NVCC_DEPENDS, false},
    {"generate-nonsystem-dependencies", "MM", DEPENDS, 0, "-MM", NVCC_DEPENDS, false},
    {"generate-dependencies-with-compile", "MD", DEPENDS, 0, "-MD", -1, false},
    {"generate-nonsystem-dependencies-with-compile", "MMD", DEPENDS, 0, "-MMD", -1, false},
    {"generate-dependency-targets", "MP", FLAG, AT(depends_phony), NULL, 0, false},
    {"dependency-output", "MF", STRING, AT(depends_file), NULL, 0, true},
    {"dependency-target-name", "MT", LIST, AT(targets), "", 0, true},
    {"ptx", "ptx", REFUSED, 0, GPU_CODE, 0, false},
    {"cubin", "cubin", REFUSED, 0, GPU_CODE, 0, false},
    {"fatbin", "fatbin", REFUSED, 0, GPU_CODE, 0, false},
    {"cuda", "cuda", REFUSED, 0, GPU_CODE, 0, false},
    {"run", "run", REFUSED, 0, "start the program by itself", 0, false},
    /* files */
    {"output-file", "o", STRING, AT(out), NULL, 0, true},
    {"output-directory", "odir", STRING, AT(odir), NULL, 0, false},
    {"x", "x", STRING, AT(language), NULL, 0, true},
    {"include-path", "I", LIST, AT(pre), "-I", 0, true},
    {"system-include", "isystem", LIST, AT(pre), "-isystem", 0, true},
    {"pre-include", "include", LIST, AT(pre), "-include", 0, false},
    {"define-macro", "D", LIST, AT(pre), "-D", 0, true},
    {"undefine-macro", "U", LIST, AT(pre), "-U", 0, true},
    {"library-path", "L", LIST, AT(link), "-L", 0, true},
    {"library", "l", LIST, AT(link), "-l", 0, true},
    {"options-file", "optf", SPECIAL_VALUE, 0, NULL, OPTION_FILE, false},
    /* the host compiler */
    {"compiler-bindir", "ccbin", STRING, AT(ccbin), NULL, 0, false},
    {"compiler-options", "Xcompiler", PARTS, AT(host), "", 0, false},
    {"linker-options", "Xlinker", PARTS, AT(link), "-Xlinker", 0, false},
    {"archive-options", "Xarchive", IGNORED_VALUE, 0, NULL, 0, false},
    {"forward-unknown-to-host-compiler", "forward-unknown-to-host-compiler", FLAG, AT(pass_unknown),
     NULL, 0, false},
    {"forward-unknown-opts", "forward-unknown-opts", FLAG, AT(pass_unknown), NULL, 0, false},
    {"std", "std", STRING, AT(std), NULL, 0, false},
    {"optimize", "O", SPECIAL_VALUE, 0, NULL, OPTIMISE, true},
    {"debug", "g", ONCE, AT(host), "-g", 0, false},
    {"device-debug", "G", SPECIAL, 0, NULL, DEBUG_DEVICE, false},
    {"profile", "pg", ONCE, AT(host), "-pg", 0, false},
    {"machine", "m", IGNORED_VALUE, 0, NULL, 0, false},
    {"m64", "m64", IGNORED, 0, NULL, 0, false},
    {"shared", "shared", FLAG, AT(shared), NULL, 0, false},
    {"cudart", "cudart", SPECIAL_VALUE, 0, NULL, CUDART, false},
    {"cudadevrt", "cudadevrt", IGNORED_VALUE, 0, NULL, 0, false},
    {"default-stream", "default-stream", SPECIAL_VALUE, 0, NULL, STREAM, false},
    {"relocatable-device-code", "rdc", SPECIAL_VALUE, 0, NULL, RDC, false},
    /* the language */
    {"extended-lambda", "extended-lambda", FLAG, AT(lambdas), NULL, 0, false},
    {"expt-extended-lambda", "expt-extended-lambda", FLAG, AT(lambdas), NULL, 0, false},
    {"expt-relaxed-constexpr", "expt-relaxed-constexpr", IGNORED, 0, NULL, 0, false},
    {"no-exceptions", "noeh", ONCE, AT(host), "-fno-exceptions", 0, false},
    {"restrict", "restrict", IGNORED, 0, NULL, 0, false},
    /* messages */
    {"verbose", "v", FLAG, AT(verbose), NULL, 0, false},
    {"dryrun", "dryrun", SPECIAL, 0, NULL, DRY, false},
    {"version", "V", FLAG, AT(version), NULL, 0, false},
    {"help", "h", FLAG, AT(help), NULL, 0, false},
    {"disable-warnings", "w", ONCE, AT(host), "-w", 0, false},
    {"Werror", "Werror", SPECIAL_VALUE, 0, NULL, WERROR, false},
    {"diag-error", "diag-error", IGNORED_VALUE, 0, NULL, 0, false},
    {"diag-suppress", "diag-suppress", IGNORED_VALUE, 0, NULL, 0, false},
    {"diag-warn", "diag-warn", IGNORED_VALUE, 0, NULL, 0, false},
    {"display-error-number", "err-no", IGNORED, 0, NULL, 0, false},
    {"no-display-error-number", "no-err-no", IGNORED, 0, NULL, 0, false},
    {"resource-usage", "res-usage", IGNORED, 0, NULL, 0, false},
    {"source-in-ptx", "src-in-ptx", IGNORED, 0, NULL, 0, false},
    {"time", "time", IGNORED_VALUE, 0, NULL, 0, false},
    {"W", "W", SPECIAL_VALUE, 0, NULL, WARN, true},
    /* GPUs */
    {"gpu-architecture", "arch", IGNORED_VALUE, 0, NULL, 0, false},
    {"gpu-code", "code", IGNORED_VALUE, 0, NULL, 0, false},
    {"generate-code", "gencode", IGNORED_VALUE, 0, NULL, 0, false},
    {"ptxas-options", "Xptxas", IGNORED_VALUE, 0, NULL, 0, false},
    {"cudafe-options", "Xcudafe", IGNORED_VALUE, 0, NULL, 0, false},
    {"fatbinary-options", "Xfatbin", IGNORED_VALUE, 0, NULL, 0, false},
    {"nvlink-options", "Xnvlink", IGNORED_VALUE, 0, NULL, 0, false},
    {"nvvm-options", "Xnvvm", IGNORED_VALUE, 0, NULL, 0, false},
    {"Xcicc", "Xcicc", IGNORED_VALUE, 0, NULL, 0, false},
    {"maxrregcount", "maxrregcount", IGNORED_VALUE, 0, NULL, 0, false},
    {"use_fast_math", "use_fast_math", IGNORED, 0, NULL, 0, false},
    {"ftz", "ftz", IGNORED_VALUE, 0, NULL, 0, false},
    {"prec-div", "prec-div", IGNORED_VALUE, 0, NULL, 0, false},
    {"prec-sqrt", "prec-sqrt", IGNORED_VALUE, 0, NULL, 0, false},
    {"fmad", "fmad", IGNORED_VALUE, 0, NULL, 0, false},
    {"extra-device-vectorization", "extra-device-vectorization", IGNORED, 0, NULL, 0, false},
    {"dopt", "dopt", IGNORED_VALUE, 0, NULL, 0, false},
    {"dlink-time-opt", "dlto", IGNORED, 0, NULL, 0, false},
    {"generate-line-info", "lineinfo", IGNORED, 0, NULL, 0, false},
    {"compress-all", "compress-all", IGNORED, 0, NULL, 0, false},
    {"compress-mode", "compress-mode", IGNORED_VALUE, 0, NULL, 0, false},
    {"keep", "keep", IGNORED, 0, NULL, 0, false},
    {"save-temps", "save-temps", IGNORED, 0, NULL, 0, false},
    {"keep-dir", "keep-dir", IGNORED_VALUE, 0, NULL, 0, false},
    {"objdir-as-tempdir", "objtemp", IGNORED, 0, NULL, 0, false},
    {"threads", "t", IGNORED_VALUE, 0, NULL, 0, true},
    {"split-compile", "split-compile", IGNORED_VALUE, 0, NULL, 0, false},
    {"allow-unsupported-compiler", "allow-unsupported-compiler", IGNORED, 0, NULL, 0, false},
    {"target-directory", "target-dir", IGNORED_VALUE, 0, NULL, 0, false},
    {"use-local-env", "use-local-env", IGNORED, 0, NULL, 0, false},
};

#define NROWS (sizeof table / sizeof *table)

struct reader {
	struct nvcc *n;
	char **argv;
	int argc, i, depth;
	struct err *err;
};

static enum rc read_all(struct nvcc *n, int argc, char **argv, int depth, struct err *err);

/* ---- finding a row */

static bool
takes_value(const struct option *o)
{
	return o->kind == STRING || o->kind == LIST || o->kind == PARTS ||
	       o->kind == IGNORED_VALUE || o->kind == SPECIAL_VALUE;
}

/* name: without dashes; len: up to =. */
static const struct option *
find(const char *name, size_t len)
{
	for (const struct option *o = table; o < table + NROWS; o++)
		if ((strlen(o->name) == len && memcmp(o->name, name, len) == 0) ||
		    (strlen(o->other) == len && memcmp(o->other, name, len) == 0))
			return o;
	return NULL;
}

/* -Ifolder, -O3 */
static const struct option *
find_joined(const char *name, const char **value)
{
	const struct option *best = NULL;
	size_t most = 0;

	for (const struct option *o = table; o < table + NROWS; o++) {
		size_t n = strlen(o->other);

		/* -Wl,x is the host compiler's. */
		if (o->joined && n > most && strncmp(name, o->other, n) == 0 && name[n] &&
		    !(*name == 'W' && strchr(name, ','))) {
			best = o;
			most = n;
		}
	}
	if (best)
		*value = name + most;
	return best;
}

/* ---- acting */

static enum rc
read_file(struct reader *r, const char *path)
{
	struct buf text = {0};
	struct words w = {0};
	char **argv; /* a copy: a file named in this file may move the list */
	enum rc rc;

	if (r->depth > 8)
		return err_set(r->err, RC_INVAL, "%s: option files include each other too deeply",
			       path);
	rc = file_text(path, "a file with options", &text, r->err);
	if (rc == RC_OK) {
		words_add_parts(&w, text.data);
		words_add_all(&r->n->read, &w);
		argv = must_alloc(w.n + 1, sizeof *argv);
		for (size_t i = 0; i < w.n; i++)
			argv[i] = r->n->read.v[r->n->read.n - w.n + i];
		rc = read_all(r->n, (int)w.n, argv, r->depth + 1, r->err);
		free(argv);
		words_fini(&w);
	}
	buf_fini(&text);
	return rc;
}

static enum rc
special(struct reader *r, const struct option *o, const char *value)
{
	struct nvcc *n = r->n;

	switch ((enum special)o->value) {
	case CUDART:
		if (strcmp(value, "none") && strcmp(value, "shared") && strcmp(value, "static"))
			return err_set(r->err, RC_INVAL,
				       "-cudart %s: must be none, shared or static", value);
		n->no_cudart = strcmp(value, "none") == 0;
		break;
	case STREAM:
		if (strcmp(value, "legacy") && strcmp(value, "null") && strcmp(value, "per-thread"))
			return err_set(r->err, RC_INVAL,
				       "--default-stream %s: must be legacy, null or per-thread",
				       value);
		n->per_thread = strcmp(value, "per-thread") == 0;
		break;
	case RDC:
		n->relocatable = strcmp(value, "true") == 0;
		break;
	case WERROR:
		if (strcmp(value, "all-warnings") == 0)
			words_add(&n->host, "-Werror");
		break;
	case OPTIMISE:
		n->optimised = true;
		words_addf(&n->host, "-O%s", value);
		break;
	case OPTION_FILE:
		return read_file(r, value);
	case DEBUG_DEVICE:
		n->debug = true;
		break;
	case DRY:
		n->dry = n->verbose = true;
		break;
	case WARN: /* specific to NVIDIA's compiler, except the one that both have */
		if (strcmp(value, "no-deprecated-declarations") == 0)
			words_addf(&n->host, "-W%s", value);
		break;
	}
	return RC_OK;
}

static enum rc
act(struct reader *r, const struct option *o, const char *value)
{
	void *field = (char *)r->n + o->at;
	struct words parts = {0};

	switch (o->kind) {
	case FLAG:
		*(bool *)field = true;
		break;
	case PHASE:
		r->n->phase = (enum nvcc_phase)o->value;
		r->n->relocatable = r->n->relocatable || strcmp(o->other, "dc") == 0;
		break;
	case STRING:
		*(const char **)field = value;
		break;
	case LIST:
		/* Long names of the preprocessor are separate arguments. */
		if (strlen(o->prefix) > 2)
			words_add(field, o->prefix, value);
		else
			words_addf(field, "%s%s", o->prefix, value);
		break;
	case PARTS:
		words_add_parts(&parts, value);
		for (size_t i = 0; i < parts.n; i++) {
			if (*o->prefix)
				words_add(field, o->prefix);
			words_add(field, parts.v[i]);
		}
		words_fini(&parts);
		break;
	case DEPENDS:
		r->n->depends = o->prefix;
		if (o->value >= 0)
			r->n->phase = (enum nvcc_phase)o->value;
		break;
	case ONCE:
		words_add(field, o->prefix);
		break;
	case SPECIAL:
	case SPECIAL_VALUE:
		return special(r, o, value);
	case REFUSED:
		return err_set(r->err, RC_INVAL, "-%s: %s", o->other, o->prefix);
	case IGNORED:
	case IGNORED_VALUE:
		break;
	}
	return RC_OK;
}

static enum rc
unknown(struct reader *r, const char *arg)
{
	if (r->n->pass_unknown) {
		words_add(&r->n->host, arg);
		return RC_OK;
	}
	return err_set(r->err, RC_INVAL,
		       "%s: unknown option; pass options of the host compiler as -Xcompiler %s",
		       arg, arg);
}

static enum rc
option(struct reader *r, const char *arg)
{
	const char *name = arg + 1 + (arg[1] == '-');
	const char *value = strchr(name, '=');
	const struct option *o = find(name, value ? (size_t)(value - name) : strlen(name));

	if (o && value && takes_value(o))
		value++;
	else if (o && value)
		return err_set(r->err, RC_INVAL, "%s: takes no value", arg);
	else if (!o && !(o = arg[1] == '-' ? NULL : find_joined(name, &value)))
		return unknown(r, arg);
	if (!takes_value(o) || value)
		return act(r, o, value);
	if (r->i + 1 >= r->argc)
		return err_set(r->err, RC_INVAL, "%s: needs a value", arg);
	return act(r, o, r->argv[++r->i]);
}

static enum rc
read_all(struct nvcc *n, int argc, char **argv, int depth, struct err *err)
{
	struct reader r = {n, argv, argc, 0, depth, err};
	enum rc rc = RC_OK;

	for (; rc == RC_OK && r.i < argc; r.i++) {
		const char *arg = argv[r.i];

		if (arg[0] == '@') {
			rc = read_file(&r, arg + 1);
		} else if (arg[0] == '-' && arg[1]) {
			rc = option(&r, arg);
		} else {
			words_add(&n->inputs, arg);
			words_add(&n->link, arg);
		}
	}
	return rc;
}

enum rc
nvcc_options(struct nvcc *n, int argc, char **argv, struct err *err)
{
	*n = (struct nvcc){0};
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "-forward-unknown", 16) == 0 ||
		    strncmp(argv[i], "--forward-unknown", 17) == 0)
			n->pass_unknown = true;
	return read_all(n, argc - 1, argv + 1, 0, err);
}

void
nvcc_fini(struct nvcc *n)
{
	words_fini(&n->targets);
	words_fini(&n->pre);
	words_fini(&n->host);
	words_fini(&n->link);
	words_fini(&n->inputs);
	words_fini(&n->read);
}

void
nvcc_help(FILE *to)
{
	fputs("usage: nvcc [option ...] file ...\n"
	      "Compiles programs written for CUDA so that their kernels run on the CPU.\n"
	      "Options; those with VALUE take a value:\n",
	      to);
	for (const struct option *o = table; o < table + NROWS; o++)
		fprintf(to, "  --%s (-%s)%s%s\n", o->name, o->other, takes_value(o) ? " VALUE" : "",
			o->kind == REFUSED				 ? "   refused"
			: o->kind == IGNORED || o->kind == IGNORED_VALUE ? "   accepted, no effect"
									 : "");
}
