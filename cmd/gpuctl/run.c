/* gpuctl run - run a command with devices of its own; see lib/clients/launch/launch.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/must.h"
#include "base/parse.h"
#include "cli.h"
#include "home.h"
#include "job.h"
#include "launch/launch.h"
#include "tape/folder.h"

/* As much as GPU programs assume; unallocated memory takes no space. */
#define NCCL_MEM "4G"

/* Records of a stream that its device keeps until --trace has read them. */
#define TRACE_RECORDER "64K"

/* Most arguments that options add to one daemon's command line. */
enum { MAX_EXTRA = 24 + 2 * ARGS_MAX_KERNELS };

struct extra {
	const char *v[MAX_EXTRA];
	size_t n;
	char number[4][32];
	size_t nnumbers;
};

static void
add(struct extra *x, const char *option, const char *value)
{
	if (!value)
		return;
	x->v[x->n++] = option;
	x->v[x->n++] = value;
}

static const char *
show(char text[32], uint64_t value, const char *unit)
{
	snprintf(text, 32, "%" PRIu64 "%s", value, unit);
	return text;
}

/* 0: the option was not given. */
static void
add_number(struct extra *x, const char *option, uint64_t value, const char *unit)
{
	if (value)
		add(x, option, show(x->number[x->nnumbers++], value, unit));
}

static void
add_flag(struct extra *x, const char *option)
{
	x->v[x->n++] = option;
}

/* Return true if each device gets a CPU of its own: the user asked for it, and there are enough. */
static bool
is_pinned(const struct args *a)
{
	cpu_set_t set;

	if (a->pin != PIN_AUTO || a->threads > 1)
		return false;
	return sched_getaffinity(0, sizeof set, &set) == 0 &&
	       a->nranks <= (unsigned)CPU_COUNT(&set);
}

/* The threads of products of matrices and of grids in the command, which has as many streams as devices at least. */
static void
share_cores(const struct args *a)
{
	unsigned n = a->threads;
	cpu_set_t set;
	char text[32];

	if (n == 0 && sched_getaffinity(0, sizeof set, &set) == 0)
		n = (unsigned)CPU_COUNT(&set) / a->nranks;
	setenv("OPENBLAS_NUM_THREADS", show(text, n ? n : 1, ""), a->threads != 0);
	setenv("GPUSIM_THREADS", text, a->threads != 0);
}

/* Findings of --memcheck. */
struct memcheck {
	FILE *findings; /* a file without a name; NULL: none are asked for */
	int out; /* with --json: this program's standard output, which the launcher closes; else -1 */
};

static enum rc
memcheck_begin(const struct args *a, struct memcheck *m, struct err *err)
{
	char link[64];
	int fd;

	*m = (struct memcheck){NULL, -1};
	if (!a->memcheck)
		return RC_OK;
	if (!a->nccl)
		return err_set(err, RC_INVAL, "--memcheck: requires --nccl");
	fd = memfd_create("gpusim-memcheck", MFD_CLOEXEC);
	if (fd < 0 || !(m->findings = fdopen(fd, "r")) ||
	    (a->json && (m->out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)) < 0))
		return err_set(err, RC_FAILED, "--memcheck: %s", strerror(errno));
	snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)getpid(), fd);
	setenv("GPUSIM_MEMCHECK", link, 1);
	return RC_OK;
}

/* Returns the exit status. */
static int
memcheck_end(const struct memcheck *m)
{
	FILE *f = m->findings;
	char *line = NULL;
	size_t size = 0, n = 0;
	bool written = true;

	if (!f)
		return EXIT_OK;
	rewind(f);
	for (; getline(&line, &size, f) > 0; n++)
		written = written && (m->out < 0 || file_write(m->out, line, strlen(line)));
	if (!written)
		fprintf(stderr, "gpuctl: run: standard output: %s\n", strerror(errno));
	fprintf(stderr, "gpuctl: run: memcheck: %zu finding%s\n", n, n == 1 ? "" : "s");
	free(line);
	fclose(f);
	return n || !written ? EXIT_FAILED : EXIT_OK;
}

/* Add the options' kernels to $GPUSIM_KERNELS, for `gpuctl launch --list` in the command. */
static void
name_kernels(const struct args *a)
{
	const char *env = getenv("GPUSIM_KERNELS");
	char path[PATH_MAX];
	struct buf list = {0};

	must_addf(&list, "%s", env ? env : "");
	for (size_t i = 0; i < a->nkernels; i++)
		must_addf(&list, ":%s", realpath(a->kernels[i], path) ? path : a->kernels[i]);
	must(a->nkernels == 0 || setenv("GPUSIM_KERNELS", list.data, 1) == 0);
	buf_fini(&list);
}

/* Suggest the verb that was written in place of a command. */
static const char *
advise(const char *command, char *text, size_t size)
{
	if (!command_find(command))
		return NULL;
	snprintf(text, size, "no such command; did you mean 'gpuctl %s'?", command);
	return text;
}

static void
say(enum log_level level, const char *sentence)
{
	log_say(level, LOG_INIT, "run: %s", sentence);
}

/* Add the options that all daemons have; all of them record into the folder. */
static enum rc
add_common(const struct args *a, struct extra *dev, struct extra *coord, char record[PATH_MAX],
	   struct err *err)
{
	struct extra *const each[] = {dev, coord};

	if (a->record_data && !a->record)
		return err_set(err, RC_INVAL, "--record-data: needs --record");
	if (a->record && tape_folder_new(a->record, err) != RC_OK)
		return err_prefix(err, "--record");
	if (a->record && !realpath(a->record, record))
		return err_set(err, RC_FAILED, "--record: %s: %s", a->record, strerror(errno));
	for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
		add(each[i], "--recorder", a->recorder);
		if (a->allow_inject || a->inject)
			add_flag(each[i], "--allow-inject");
		if (a->insecure)
			add_flag(each[i], "--insecure");
		add(each[i], "--record", a->record ? record : NULL);
		if (a->record_data)
			add_flag(each[i], "--record-data");
		for (unsigned v = 0; v < a->verbose && v < 2; v++) /* a third -v adds nothing */
			add_flag(each[i], "-v");
	}
	return RC_OK;
}

/* Check that a daemon can listen at the value of --http or --grpc. */
static enum rc
check_listen(const char *option, const char *value, const struct args *a, struct err *err)
{
	char address[256];

	if (!value || parse_listen(value, a->insecure, address, sizeof address, err) == RC_OK)
		return RC_OK;
	return err_prefix(err, "%s", option);
}

enum rc
run_run(struct cli *cli, const struct args *a, struct err *err)
{
	struct extra dev = {0}, coord = {0};
	struct job job = {0};
	int traced, found;
	struct memcheck findings;
	char advice[80], mem[32], record[PATH_MAX];
	struct launch_config cfg = {.ndevices = (int)a->nranks,
				    .nspares = (int)a->spares,
				    .mem = a->mem_bytes ? show(mem, a->mem_bytes, "")
					   : a->nccl	? NCCL_MEM
							: NULL,
				    .mem_file = a->mem_file,
				    .grpc = a->grpc,
				    .dev_args = dev.v,
				    .coord_args = coord.v,
				    .not_found = advise(a->rest[0], advice, sizeof advice),
				    .start_timeout_ms = a->start_timeout_ms,
				    .say = say};

	if (check_listen("--http", a->http, a, err) != RC_OK ||
	    check_listen("--grpc", a->grpc, a, err) != RC_OK)
		return err->rc;
	if (job_ranks(a, &cfg, err) != RC_OK)
		return err->rc;
	add_number(&dev, "--latency", a->latency_ns, "ns");
	add_number(&dev, "--bandwidth", a->bits_per_s, "");
	if (a->spares > LAUNCH_MAX_DEVICES - a->nranks)
		return err_set(err, RC_INVAL,
			       "--spares: %u spares and %u devices exceed the limit of %d",
			       a->spares, a->nranks, LAUNCH_MAX_DEVICES);
	if (args_given(a, on_failure)) /* for the coordinator and the command's clients */
		setenv("GPUSIM_ON_FAILURE", gpusim_on_failure_name(a->on_failure), 1);
	if (a->transport)
		setenv("GPUSIM_P2P_LEVEL", "LOC", 1); /* for the devices */
	if (a->transport == TRANSPORT_TCP)
		add(&dev, "--data", "tcp://127.0.0.1:0");
	add_number(&dev, "--threads", a->threads, "");
	add(&dev, "--pin", is_pinned(a) ? "auto" : NULL);
	add_number(&coord, "--op-timeout", a->op_timeout_ms, "ms");
	add(&coord, "--http", a->http);
	add(&coord, "--report-dir", a->report_dir);
	if (a->torch || a->max_restarts)
		add_flag(&coord, "--revive");
	for (size_t i = 0; i < a->nkernels; i++)
		add(&dev, "--kernels", a->kernels[i]);
	if (add_common(a, &dev, &coord, record, err) != RC_OK)
		return err->rc;
	name_kernels(a);
	if (a->nccl && home_enter(err) != RC_OK)
		return err->rc;
	if (a->nccl)
		share_cores(a);
	if (memcheck_begin(a, &findings, err) != RC_OK)
		return err->rc;
	add(&dev, "--recorder", a->trace ? TRACE_RECORDER : NULL);
	cfg.ndev_args = dev.n;
	cfg.ncoord_args = coord.n;
	if (job_begin(a, &job, &cfg, err) != RC_OK)
		return err->rc;
	cli->status = launch_run(&cfg, a->rest, err);
	traced = job_end(&job);
	found = memcheck_end(&findings);
	if (cli->status == EXIT_OK)
		cli->status = traced ? traced : found;
	return err->rc;
}
