#include "job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/must.h"
#include "coll/fault.h"
#include "home.h"

/* ---- ranks */

/* The first option that is for ranks; NULL: none. */
static const char *
for_ranks(const struct args *a)
{
	return a->each			     ? "--each"
	       : a->label		     ? "--label"
	       : a->max_restarts	     ? "--max-restarts"
	       : args_given(a, restart_rank) ? "--restart"
					     : NULL;
}

static enum rc
check(const struct args *a, struct err *err)
{
	const char *option = for_ranks(a);

	if (a->procs && !a->torch)
		return err_set(err, RC_INVAL, "--procs: requires --torch");
	if (a->procs && option)
		return err_set(err, RC_INVAL, "%s: --procs 1 starts no ranks", option);
	if (option && !a->each && !a->torch)
		return err_set(err, RC_INVAL, "%s: requires --each%s", option,
			       a->label ? "" : " or --torch");
	if (args_given(a, restart_rank) && !a->max_restarts)
		return err_set(err, RC_INVAL, "--restart: requires --max-restarts");
	return RC_OK;
}

enum rc
job_ranks(const struct args *a, struct launch_config *cfg, struct err *err)
{
	if (check(a, err) != RC_OK)
		return err->rc;
	cfg->each = a->each || (a->torch && !a->procs);
	cfg->label = a->label;
	cfg->max_restarts = a->max_restarts;
	cfg->restart_rank = a->restart_rank;
	/* For gpusim/_rejoin.py: which processes begin anew after a failure. */
	if (cfg->each || a->procs)
		must(setenv("GPUSIM_RESTART",
			    a->procs	      ? "none"
			    : a->restart_rank ? "rank"
					      : "all",
			    1) == 0);
	if (a->torch && cfg->each && a->nranks > 1) /* as torchrun */
		must(setenv("OMP_NUM_THREADS", "1", 0) == 0);
	return home_name_python(a->torch, err);
}

/* ---- before the command */

/* Cut the words apart, and check them as far as that is possible without devices. Here a rank is the device of that
 * number: there is no communicator yet. */
static enum rc
take_faults(const struct args *a, struct job *j, struct err *err)
{
	size_t n = 2;
	char *rest = NULL;

	j->inject = must_strdup(a->inject);
	j->faults = must_alloc(strlen(a->inject) / 2 + 4, sizeof *j->faults);
	j->faults[0] = "gpuctl";
	j->faults[1] = "inject";
	for (char *word = strtok_r(j->inject, " \t\n", &rest); word;
	     word = strtok_r(NULL, " \t\n", &rest)) {
		struct gpusim_fault f;

		if (n == 2 && !fault_kind_parse(word, &f))
			return err_set(err, RC_INVAL, "--inject: '%.64s' is not a fault", word);
		j->faults[n++] =
		    strncmp(word, "rank=", 5) == 0 ? must_printf("device=%s", word + 5) : word;
	}
	return n > 2 ? RC_OK : err_set(err, RC_INVAL, "--inject: no fault");
}

/* In the guardian, which has all signals blocked and no descriptors of the user but standard error. */
static int
inject(const struct job *j, const char *coordinator)
{
	int status = 0;
	pid_t pid = fork();
	sigset_t none;

	if (pid == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setenv("GPUSIM_COORD", coordinator, 1);
		execv("/proc/self/exe", (char *const *)j->faults);
		_exit(EXIT_INTERNAL);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (pid < 0 || WIFSIGNALED(status))
		return EXIT_FAILED;
	return WEXITSTATUS(status);
}

static int
ready(void *arg, const char *coordinator)
{
	const struct job *j = arg;

	tracing_ready(&j->tracing, coordinator);
	return j->inject ? inject(j, coordinator) : EXIT_OK;
}

enum rc
job_begin(const struct args *a, struct job *j, struct launch_config *cfg, struct err *err)
{
	cfg->ready = ready;
	cfg->ready_arg = j;
	if (a->inject && take_faults(a, j, err) != RC_OK)
		return err->rc;
	return a->trace ? tracing_begin(a->trace, &j->tracing, err) : RC_OK;
}

int
job_end(struct job *j)
{
	free(j->inject);
	free(j->faults);
	return tracing_end(&j->tracing);
}
