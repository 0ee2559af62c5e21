/* gpuctl run - a command with a machine full of devices; see lib/launch/launch.h. */
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "cli.h"
#include "launch/launch.h"

/* Most arguments that options add to one daemon's command line. */
enum { MAX_EXTRA = 13 + 2 * ARGS_MAX_KERNELS };

struct extra {
	const char *v[MAX_EXTRA];
	size_t n;
};

static void
add(struct extra *x, const char *option, const char *value)
{
	if (!value)
		return;
	x->v[x->n++] = option;
	x->v[x->n++] = value;
}

static void
add_flag(struct extra *x, const char *option)
{
	x->v[x->n++] = option;
}

/* Verbose once or twice; more says nothing more. */
static void
add_verbose(struct extra *x, unsigned verbose)
{
	for (unsigned i = 0; i < verbose && i < 2; i++)
		x->v[x->n++] = "-v";
}

/* Whether each device gets a CPU of its own, as was asked for: when there are enough of them. */
static bool
is_pinned(const struct args *a)
{
	cpu_set_t set;

	if (!a->pin || strcmp(a->pin, "auto") != 0 || (a->threads && strcmp(a->threads, "1") != 0))
		return false;
	return sched_getaffinity(0, sizeof set, &set) == 0 &&
	       a->nranks <= (unsigned)CPU_COUNT(&set);
}

/* For the command, whose `gpuctl launch --list` shall know them: $GPUSIM_KERNELS, and those of the options. */
static enum rc
name_kernels(const struct args *a, struct err *err)
{
	const char *env = getenv("GPUSIM_KERNELS");
	char path[PATH_MAX];
	struct buf list = {0};
	bool ok = buf_addf(&list, "%s", env ? env : "");

	for (size_t i = 0; ok && i < a->nkernels; i++)
		ok = buf_addf(&list, ":%s", realpath(a->kernels[i], path) ? path : a->kernels[i]);
	ok = ok && (a->nkernels == 0 || setenv("GPUSIM_KERNELS", list.data, 1) == 0);
	buf_fini(&list);
	return ok ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* A verb where a command should be is a slip that is easily made. */
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
	log_line(level, "run: %s", sentence);
}

enum rc
run_run(struct cli *cli, const struct args *a, struct err *err)
{
	struct extra dev = {0}, coord = {0};
	struct gpusim_comm_config policy;
	char advice[80];
	struct launch_config cfg = {.ndevices = (int)a->nranks,
				    .nspares = (int)a->spares,
				    .mem = a->mem,
				    .mem_file = a->mem_file,
				    .grpc = a->grpc,
				    .dev_args = dev.v,
				    .coord_args = coord.v,
				    .not_found = advise(a->rest[0], advice, sizeof advice),
				    .start_timeout_ms = a->start_timeout_ms,
				    .say = say};

	if (a->nranks > LAUNCH_MAX_DEVICES)
		return err_set(err, RC_INVAL, "-n: %u is not 1 to %d", a->nranks,
			       LAUNCH_MAX_DEVICES);
	add(&dev, "--latency", a->latency);
	add(&dev, "--bandwidth", a->bandwidth);
	if (a->spares > LAUNCH_MAX_DEVICES - a->nranks)
		return err_set(err, RC_INVAL, "--spares: %u and %u devices are more than %d",
			       a->spares, a->nranks, LAUNCH_MAX_DEVICES);
	if (cli_config(a, GPUSIM_PERSIST, &policy, err) != RC_OK)
		return err->rc;
	if (args_has(a, OPT(ON_FAILURE))) /* for the coordinator, and the command's clients */
		setenv("GPUSIM_ON_FAILURE", gpusim_on_failure_name(a->on_failure), 1);
	if (a->transport)
		setenv("GPUSIM_P2P_LEVEL", "LOC", 1); /* for the devices */
	if (a->transport && strcmp(a->transport, "tcp") == 0)
		add(&dev, "--data", "tcp://127.0.0.1:0");
	add(&dev, "--threads", a->threads);
	add(&dev, "--pin", is_pinned(a) ? "auto" : NULL);
	add(&coord, "--op-timeout", a->op_timeout);
	add(&coord, "--http", a->http);
	if (args_has(a, OPT(ALLOW_INJECT))) {
		add_flag(&dev, "--allow-inject");
		add_flag(&coord, "--allow-inject");
	}
	for (size_t i = 0; i < a->nkernels; i++)
		add(&dev, "--kernels", a->kernels[i]);
	if (name_kernels(a, err) != RC_OK)
		return err->rc;
	add_verbose(&dev, a->verbose);
	add_verbose(&coord, a->verbose);
	cfg.ndev_args = dev.n;
	cfg.ncoord_args = coord.n;
	cli->status = launch_run(&cfg, a->rest, err);
	return err->rc;
}
