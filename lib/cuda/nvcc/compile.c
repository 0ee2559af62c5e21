/*
 * The steps of a command line. A .cu file is preprocessed by the host compiler, rewritten, and
 * compiled as preprocessed C++; all other sources go to the host compiler unchanged.
 */
#include "nvcc/compile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/must.h"
#include "nvcc/arch.h"
#include "nvcc/rewrite.h"

struct job {
	const struct nvcc *n;
	const char *home;
	char temp[256]; /* a folder; "": none yet */
	unsigned ntemp;
	bool arch;	      /* the pass that defines __CUDA_ARCH__, and writes no dependencies */
	bool permissive;      /* the source includes headers that g++ refuses otherwise */
	struct words objects; /* one for each input: itself, or its object */
	struct err *err;
};

/* ---- names */

enum source { SOURCE_CU, SOURCE_HOST, SOURCE_NONE };

static const char *
extension(const char *path)
{
	const char *base = strrchr(path, '/'), *dot;

	base = base ? base + 1 : path;
	dot = strrchr(base, '.');
	return dot && dot != base ? dot + 1 : "";
}

static enum source
source_of(const struct nvcc *n, const char *path)
{
	static const char *const host[] = {"c",	  "cc", "cpp", "cxx", "C",
					   "c++", "s",	"S",   "i",   "ii"};
	const char *ext = extension(path);

	if (n->language && strcmp(n->language, "none"))
		return strcmp(n->language, "cu") == 0 ? SOURCE_CU : SOURCE_HOST;
	if (strcmp(ext, "cu") == 0)
		return SOURCE_CU;
	for (size_t i = 0; i < sizeof host / sizeof *host; i++)
		if (strcmp(ext, host[i]) == 0)
			return SOURCE_HOST;
	return SOURCE_NONE;
}

/* folder/name.o of a source; folder NULL: the current one. */
static void
add_object_name(struct words *w, const char *source, const char *folder)
{
	const char *base = strrchr(source, '/'), *ext = extension(source);
	int n;

	base = base ? base + 1 : source;
	n = (int)(*ext ? ext - base - 1 : (ptrdiff_t)strlen(base));
	words_addf(w, "%s%s%.*s.o", folder ? folder : "", folder ? "/" : "", n, base);
}

/* ---- temporary files */

static enum rc
temp_folder(struct job *j)
{
	const char *tmp = getenv("TMPDIR");

	if (*j->temp)
		return RC_OK;
	if (snprintf(j->temp, sizeof j->temp, "%s/nvcc-XXXXXX", tmp && *tmp ? tmp : "/tmp") >=
		(int)sizeof j->temp ||
	    !mkdtemp(j->temp)) {
		*j->temp = '\0';
		return err_set(j->err, RC_FAILED,
			       "%s: cannot create a folder for temporary files: %s",
			       tmp && *tmp ? tmp : "/tmp", strerror(errno));
	}
	return RC_OK;
}

static void
remove_temp(struct job *j)
{
	DIR *d = *j->temp ? opendir(j->temp) : NULL;
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	rmdir(j->temp);
}

/* ---- the host compiler's arguments */

/* At least C++17: the rewriter's output needs it. */
static void
add_std(const struct nvcc *n, bool cu, struct words *w)
{
	const char *s = n->std;
	const char *digits = s ? strpbrk(s, "0123456789") : NULL;
	int year = digits ? atoi(digits) : 0;

	if (s && cu && digits && (year == 3 || year == 11 || year == 14 || year == 98))
		words_addf(w, "-std=%.*s17", (int)(digits - s), s);
	else if (s || cu)
		words_addf(w, "-std=%s", s ? s : "gnu++17");
}

/* Add the macros that a .cu file needs. The release is that of CUDART_VERSION. */
static void
add_marks(const struct nvcc *n, struct words *w)
{
#define MARK(name) "-D__" #name "__=__gpusim_" #name "__",
	words_add(w, NVCC_MARKS "-D__CUDACC__", "-D__NVCC__", "-D__CUDACC_VER_MAJOR__=12",
		  "-D__CUDACC_VER_MINOR__=4", "-D__CUDACC_VER_BUILD__=0", "-D__GPUSIM_NVCC__",
		  "-D__launch_bounds__(...)=", "-D__maxnreg__(...)=", "-D__cluster_dims__(...)=",
		  "-D__grid_constant__=");
	/* libcu++ waits in loops, not in the kernel of the system. */
	words_add(w, "-D_LIBCUDACXX_HAS_NO_PLATFORM_WAIT",
		  "-D_LIBCUDACXX_HAS_NO_THREAD_CONTENTION_TABLE");
#undef MARK
	if (n->lambdas)
		words_add(w, "-D__CUDACC_EXTENDED_LAMBDA__", "-D__CUDACC_RELAXED_CONSTEXPR__");
	if (n->relocatable)
		words_add(w, "-D__CUDACC_RDC__");
}

static void
add_depends(const struct nvcc *n, const char *object, struct words *w)
{
	const char *ext = extension(object);

	if (!n->depends)
		return;
	words_add(w, n->depends);
	if (n->depends_phony)
		words_add(w, "-MP");
	for (size_t i = 0; i < n->targets.n; i++)
		words_add(w, "-MT", n->targets.v[i]);
	if (n->phase == NVCC_DEPENDS)
		return;
	if (n->targets.n == 0)
		words_add(w, "-MT", object);
	words_add(w, "-MF");
	if (n->depends_file)
		words_add(w, n->depends_file);
	else
		words_addf(w, "%.*sd", (int)(*ext ? ext - object : (ptrdiff_t)strlen(object)),
			   object);
}

static void
add_common(struct job *j, bool cu, struct words *w)
{
	const struct nvcc *n = j->n;

	add_std(n, cu, w);
	words_add_all(w, &n->host);
	if (n->debug)
		words_add(w, "-g");
	/* nvcc optimises device code unless it is debugged. */
	if (cu && !n->optimised)
		words_add(w, n->debug ? "-O0" : "-O3");
}

static void
add_preprocessor(struct job *j, bool cu, struct words *w)
{
	const struct nvcc *n = j->n;

	/* mpi.h without its C++ interface, which MPI-3 has removed: its inline functions need a
	 * library that makefiles do not name. */
	if (cu)
		words_add(w, "-DOMPI_SKIP_MPICXX=1", "-DMPICH_SKIP_MPICXX=1");
	words_add_all(w, &n->pre);
	words_add(w, "-isystem");
	words_addf(w, "%s/include", j->home);
	if (n->per_thread)
		words_add(w, "-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1");
	if (cu) {
		add_marks(n, w);
		words_add(w, "-include", "cuda_runtime.h");
	}
}

/* ---- steps */

/* Preprocess to a file; to NULL: to standard output. */
static enum rc
preprocess(struct job *j, const char *source, bool cu, const char *to, const char *object)
{
	struct words w = {0};
	enum rc rc;

	command_begin(j->n, &w);
	if (j->n->phase != NVCC_DEPENDS)
		words_add(&w, "-E");
	add_common(j, cu, &w);
	add_preprocessor(j, cu, &w);
	if (j->arch)
		words_add(&w, "-D__CUDA_ARCH__=900");
	else
		add_depends(j->n, object, &w);
	if (cu)
		words_add(&w, "-x", "c++");
	words_add(&w, source);
	if (to)
		words_add(&w, "-o", to);
	rc = command_run(j->n, &w, j->err);
	words_fini(&w);
	return rc;
}

static enum rc
write_whole(struct job *j, const char *path, const struct buf *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	bool good = fd >= 0 && file_write(fd, text->data, text->len);
	int e = errno;

	if (fd >= 0 && close(fd) != 0 && good) {
		good = false;
		e = errno;
	}
	return good ? RC_OK : err_set(j->err, RC_FAILED, "%s: %s", path, strerror(e));
}

/* The preprocessed source; where it asks for __CUDA_ARCH__, merged with what a device runs. */
static enum rc
read_preprocessed(struct job *j, const char *source, const char *from, struct buf *out)
{
	char second[330];
	struct buf host = {0}, device = {0};
	enum rc rc = file_bytes(from, SIZE_MAX, &host, j->err);

	if (rc != RC_OK || !arch_matters(&host)) {
		*out = host;
		return rc;
	}
	snprintf(second, sizeof second, "%s.arch", from);
	j->arch = true;
	rc = preprocess(j, source, true, second, NULL);
	j->arch = false;
	if (rc == RC_OK)
		rc = file_bytes(second, SIZE_MAX, &device, j->err);
	if (rc == RC_OK)
		arch_merge(&host, &device, source, out);
	buf_fini(&host);
	buf_fini(&device);
	return rc;
}

static enum rc
rewrite_file(struct job *j, const char *source, const char *from, const char *to)
{
	static const char mark[] = "/cub/util_namespace.cuh\"";
	const struct rewrite_how how = {.separate = j->n->relocatable, .loops = !j->n->debug};
	struct buf in = {0}, out = {0};
	enum rc rc;

	if (j->n->dry)
		return RC_OK;
	rc = read_preprocessed(j, source, from, &in);
	/* cub's classes give members the names of the classes that they are made of. */
	j->permissive = rc == RC_OK && memmem(in.data, in.len, mark, strlen(mark));
	if (rc == RC_OK)
		rc = rewrite(in.data, in.len, source, &how, &out, j->err);
	if (rc == RC_OK)
		rc = write_whole(j, to, &out);
	buf_fini(&in);
	buf_fini(&out);
	return rc;
}

static enum rc
compile_host(struct job *j, const char *source, const char *object)
{
	struct words w = {0};
	enum rc rc;

	command_begin(j->n, &w);
	words_add(&w, "-c");
	add_common(j, false, &w);
	add_preprocessor(j, false, &w);
	add_depends(j->n, object, &w);
	if (j->n->language)
		words_add(&w, "-x", j->n->language);
	words_add(&w, source, "-o", object);
	rc = command_run(j->n, &w, j->err);
	words_fini(&w);
	return rc;
}

static enum rc
compile_cu(struct job *j, const char *source, const char *object)
{
	char first[320], second[320];
	struct words w = {0};
	enum rc rc = temp_folder(j);

	snprintf(first, sizeof first, "%s/%u.ii", j->temp, j->ntemp);
	snprintf(second, sizeof second, "%s/%u-cpu.ii", j->temp, j->ntemp++);
	if (rc == RC_OK)
		rc = preprocess(j, source, true, first, object);
	if (rc == RC_OK)
		rc = rewrite_file(j, source, first, second);
	if (rc != RC_OK)
		return rc;
	command_begin(j->n, &w);
	words_add(&w, "-c");
	add_common(j, true, &w);
	if (j->permissive)
		words_add(&w, "-fpermissive");
	/* Results are independent of the processor (no implicit fused multiply-add), and what a GPU's
	 * compiler defines is defined: type punning is allowed, and integers wrap. */
	words_add(&w, "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv", "-x",
		  "c++-cpp-output", second, "-o", object);
	rc = command_run(j->n, &w, j->err);
	words_fini(&w);
	return rc;
}

/* Compile an input and note its object; other inputs stay as they are. */
static enum rc
compile_input(struct job *j, const char *input)
{
	const struct nvcc *n = j->n;
	enum source kind = source_of(n, input);
	const char *object;
	bool link = n->phase != NVCC_COMPILE;
	enum rc rc = RC_OK;

	if (kind == SOURCE_NONE) {
		if (!link)
			return err_set(j->err, RC_INVAL, "%s: not a source file", input);
		words_add(&j->objects, input);
		return RC_OK;
	}
	if (access(input, R_OK) != 0)
		return err_set(j->err, RC_INVAL, "%s: %s", input, strerror(errno));
	if (link)
		rc = temp_folder(j);
	if (rc != RC_OK)
		return rc;
	if (n->out && !link)
		words_add(&j->objects, n->out);
	else if (link)
		words_addf(&j->objects, "%s/%u-object.o", j->temp, j->ntemp++);
	else
		add_object_name(&j->objects, input, n->odir);
	object = j->objects.v[j->objects.n - 1];
	return kind == SOURCE_CU ? compile_cu(j, input, object) : compile_host(j, input, object);
}

/* ---- linking */

static bool
is_option_library(const char *word, const char *name)
{
	return strncmp(word, "-l", 2) == 0 && strcmp(word + 2, name) == 0;
}

/* Add the options and inputs in order; objects replace sources. */
static void
add_link(struct job *j, struct words *w)
{
	const struct words *l = &j->n->link;
	size_t input = 0, last = 0;

	for (size_t i = 0; i < l->n; i++) {
		const char *s = l->v[i];

		if (strcmp(s, "-Xlinker") == 0 && i + 1 < l->n)
			words_add(w, s, l->v[++i]);
		else if (is_option_library(s, "cudart_static"))
			words_add(w, "-lcudart"); /* the only one */
		else if (is_option_library(s, "cudadevrt"))
			continue;
		else if (*s == '-')
			words_add(w, s);
		else
			words_add(w, j->objects.v[input++]);
		last = *s == '-' ? last : i;
	}
	/* As nvcc does, after the inputs: a linker drops libraries that nothing before them needs. */
	for (size_t i = 0; i < last; i++)
		if (strncmp(l->v[i], "-l", 2) == 0 && !is_option_library(l->v[i], "cudadevrt") &&
		    !is_option_library(l->v[i], "cudart_static"))
			words_add(w, l->v[i]);
}

static enum rc
link_all(struct job *j)
{
	const struct nvcc *n = j->n;
	struct words w = {0};
	enum rc rc;

	command_begin(n, &w);
	words_add_all(&w, &n->host);
	if (n->shared)
		words_add(&w, "-shared");
	words_add(&w, "-o", n->out ? n->out : "a.out");
	add_link(j, &w);
	words_addf(&w, "-L%s/lib", j->home);
	words_addf(&w, "-L%s/lib/stubs", j->home);
	words_add(&w, "-Xlinker", "-rpath", "-Xlinker");
	words_addf(&w, "%s/lib", j->home);
	if (!n->no_cudart)
		words_add(&w, "-lcudart");
	words_add(&w, "-lpthread", "-ldl", "-lrt", "-lm");
	if (n->ccbin && strstr(n->ccbin, "cc") && !strstr(n->ccbin, "++"))
		words_add(&w, "-lstdc++"); /* gcc, cc */
	rc = command_run(n, &w, j->err);
	words_fini(&w);
	return rc;
}

/* Create an archive; an existing one is replaced. */
static enum rc
archive(struct job *j)
{
	struct words w = {0};
	const char *out = j->n->out ? j->n->out : "a.a";
	enum rc rc;

	words_add(&w, "ar", "rcs", out);
	words_add_all(&w, &j->objects);
	if (!j->n->dry)
		unlink(out);
	rc = command_run(j->n, &w, j->err);
	words_fini(&w);
	return rc;
}

/* No device code needs linking: make an empty object. */
static enum rc
device_link(struct job *j)
{
	struct words w = {0};
	enum rc rc;

	command_begin(j->n, &w);
	words_add_all(&w, &j->n->host);
	words_add(&w, "-c", "-x", "c++", "/dev/null", "-o", j->n->out ? j->n->out : "a_dlink.o");
	rc = command_run(j->n, &w, j->err);
	words_fini(&w);
	return rc;
}

/* ---- all steps */

static enum rc
each_input(struct job *j)
{
	const struct words *in = &j->n->inputs;
	enum rc rc = RC_OK;

	for (size_t i = 0; rc == RC_OK && i < in->n; i++) {
		bool cu = source_of(j->n, in->v[i]) == SOURCE_CU;

		if (j->n->phase == NVCC_PREPROCESS || j->n->phase == NVCC_DEPENDS)
			rc = preprocess(j, in->v[i], cu, j->n->out, in->v[i]);
		else
			rc = compile_input(j, in->v[i]);
	}
	return rc;
}

static enum rc
check(const struct nvcc *n, struct err *err)
{
	if (n->inputs.n == 0)
		return err_set(err, RC_INVAL, "no input files; -h lists the options");
	if (n->out && n->inputs.n > 1 && n->phase != NVCC_LINK && n->phase != NVCC_ARCHIVE &&
	    n->phase != NVCC_DEVICE_LINK)
		return err_set(err, RC_INVAL, "-o %s: cannot hold the results of %zu inputs",
			       n->out, n->inputs.n);
	return RC_OK;
}

/* What CMake reads of nvcc -v: where the toolkit is, the libraries that are part of the line that links, GPUs. */
static void
print_toolkit(const char *home)
{
	const char *path = getenv("PATH");

	fprintf(stderr,
		"#$ TOP=%s\n#$ NVVMIR_LIBRARY_DIR=%s/nvvm/libdevice\n#$ PATH=%s/bin:%s\n"
		"#$ INCLUDES=-I%s/include\n#$ LIBRARIES=-L%s/lib\n#$ GPU=-arch compute_90\n",
		home, home, home, path ? path : "", home, home);
}

enum rc
nvcc_run(const struct nvcc *n, const char *home, struct err *err)
{
	struct job j = {.n = n, .home = home, .err = err};
	enum rc rc;

	if (n->verbose)
		print_toolkit(home);
	rc = check(n, err);
	if (rc == RC_OK && n->phase == NVCC_DEVICE_LINK)
		rc = device_link(&j);
	else if (rc == RC_OK)
		rc = each_input(&j);
	if (rc == RC_OK && n->phase == NVCC_LINK)
		rc = link_all(&j);
	if (rc == RC_OK && n->phase == NVCC_ARCHIVE)
		rc = archive(&j);
	remove_temp(&j);
	words_fini(&j.objects);
	return rc;
}
