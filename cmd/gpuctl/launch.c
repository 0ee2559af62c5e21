/* gpuctl launch - launch a kernel on a stream of one device. */
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"
#include "base/parse.h"
#include "cli.h"
#include "mem/dtype.h"

#define MAX_ARGS   32
#define MAX_STREAM 63

/* A type's name becomes its number; a whole number is stored in u, any other number in f. */
static enum rc
parse_value(const char *text, struct gpusim_arg *arg, struct err *err)
{
	enum gpusim_dtype t;

	if (dtype_parse(text, &t, NULL) == RC_OK) {
		arg->u = t;
		return RC_OK;
	}
	if (parse_u64(text, 0, UINT64_MAX, &arg->u, NULL) == RC_OK)
		return RC_OK;
	if (parse_double(text, -DBL_MAX, DBL_MAX, &arg->f, NULL) != RC_OK)
		return err_set(err, RC_INVAL, "'%.64s' is neither a number nor a type", text);
	arg->is_real = 1;
	return RC_OK;
}

/* Parse name=value; the name is cut off in place. */
static enum rc
parse_arg(char *word, struct gpusim_arg *arg, struct err *err)
{
	char *eq = strchr(word, '=');
	enum rc rc;

	*arg = (struct gpusim_arg){.name = word};
	if (!eq || eq == word)
		return err_set(err, RC_INVAL, "'%.64s' is not name=value", word);
	*eq = '\0';
	rc = parse_value(eq + 1, arg, err);
	return rc == RC_OK ? rc : err_prefix(err, "%.64s", word);
}

/* gpudev has the kernels: this process becomes gpudev. */
static enum rc
list(const struct args *a, struct err *err)
{
	const char *how = a->json ? "--list-kernels=json" : "--list-kernels";
	char path[PATH_MAX + 16], folder[PATH_MAX];

	if (a->nrest ||
	    (a->device || a->comm || args_given(a, rank) || args_given(a, stream) || a->async))
		return err_set(err, RC_INVAL, "--list: allows no other option than --json");
	if (host_own_folder(folder, sizeof folder)) {
		snprintf(path, sizeof path, "%s/gpudev", folder);
		execl(path, "gpudev", how, (char *)NULL);
	}
	execlp("gpudev", "gpudev", how, (char *)NULL);
	return err_set(err, RC_FAILED, "cannot run gpudev, which lists the kernels: %s",
		       strerror(errno));
}

enum rc
run_launch(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_arg args[MAX_ARGS];
	size_t nargs;
	struct gpusim_device device;
	enum rc rc = RC_OK;

	if (a->list)
		return list(a, err);
	if (a->json)
		return err_set(err, RC_INVAL, "--json: needs --list");
	if (a->nrest == 0)
		return err_set(err, RC_INVAL, "a kernel is missing; --list lists the kernels");
	nargs = (size_t)a->nrest - 1;
	if (nargs > MAX_ARGS)
		return err_set(err, RC_INVAL, "%zu arguments exceed the limit of %d", nargs,
			       MAX_ARGS);
	if (a->stream > MAX_STREAM)
		return err_set(err, RC_INVAL, "--stream: must be 0 to %d", MAX_STREAM);
	for (size_t i = 0; i < nargs && rc == RC_OK; i++)
		rc = parse_arg(a->rest[i + 1], &args[i], err);
	if (rc == RC_OK)
		rc = cli_target(cli, a, &device, err);
	if (rc == RC_OK)
		rc =
		    api(gpusim_launch(cli->g, device, (struct gpusim_stream){a->stream}, a->rest[0],
				      args, nargs, a->async ? GPUSIM_ASYNC : GPUSIM_SYNC),
			err);
	return rc;
}
