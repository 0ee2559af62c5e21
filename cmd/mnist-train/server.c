#include "server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "ps/ps.h"
#include "train/model.h"

/* The argument of the hooks of a training with a parameter server. */
struct session {
	struct report *report;
	struct saver *saver;
	struct publisher publisher;
	const struct train_config *config;
};

static void
on_progress(void *arg, double fraction)
{
	report_progress(((struct session *)arg)->report, fraction);
}

static void
on_event(void *arg, const char *text)
{
	report_event(((struct session *)arg)->report, text);
}

static void
on_publish(void *arg, uint64_t version, const float *values)
{
	publisher_put(&((struct session *)arg)->publisher, version, values);
}

static enum rc
keep_weights(struct ps *ps, const struct task *task, struct err *err)
{
	float *values = must_alloc(task_values(task), sizeof *values);
	enum rc rc = ps_weights(ps, values, err);

	if (rc == RC_OK && task->config->save)
		rc = model_save(task->config->save, task, values, err);
	if (rc == RC_OK)
		report_weights(task, values);
	free(values);
	return rc;
}

static void
checkpoint(struct saver *saver, struct ps *ps)
{
	struct checkpoint c = {0};
	struct err err = {0};

	if (saver->dir)
		saver_write(saver, ps_state(ps, &c, &err), &c, &err);
}

static enum rc
train(struct session *s, struct ps *ps, struct err *err)
{
	const struct train_config *o = s->config;
	enum rc rc = RC_OK;

	while (rc == RC_OK && ps_epochs(ps) < o->epochs) {
		struct epoch e;

		rc = ps_epoch(ps, &e, err);
		if (rc == RC_OK)
			rc = report_epoch(s->report, &e, err);
		if (rc == RC_OK)
			publisher_epoch(&s->publisher, s->report->epoch - 1, &e);
		if (rc == RC_OK)
			checkpoint(s->saver, ps);
	}
	if (rc == RC_OK && s->saver->dir && !s->saver->any)
		checkpoint(s->saver, ps);
	return rc;
}

/* Make a learner's command line: the options in force, except for the server's files.
 */
static enum rc
learner_args(const struct train_config *o, char ***out, struct err *err)
{
	/* Learners that are fed samples need no data; others do: then the last entry is removed. */
	static const char *const servers[] = {
	    "json",   "plot",	"save",	 "checkpoint", "checkpoint-every",
	    "resume", "listen", "trace", "data",       NULL};
	const char *except[sizeof servers / sizeof servers[0]];

	memcpy(except, servers, sizeof servers);
	if (o->feed != FEED_DATA)
		except[sizeof servers / sizeof servers[0] - 2] = NULL;
	return config_args(o, except, out, err);
}

static enum rc
open_server(struct session *s, struct gpusim *g, const struct task *task, uint32_t n,
	    const struct checkpoint *from, struct ps **out, struct err *err)
{
	struct ps_hooks hooks = {.arg = s,
				 .progress = s->report->bar ? on_progress : NULL,
				 .event = on_event,
				 .publish = on_publish};
	struct ps_options options = {.listen = s->config->listen, .nworkers = n - 1};
	char **args;
	enum rc rc;

	if (n < 2)
		return err_set(
		    err, RC_FAILED,
		    "only one device is free; the parameter server needs one, and each learner "
		    "another");
	rc = learner_args(s->config, &args, err);
	if (rc != RC_OK)
		return rc;
	options.argv = args;
	rc = ps_new(g, task, &options, from, &hooks, out, err);
	option_args_free(args);
	return rc;
}

static void
say_start(const struct task *task, const struct ps *ps, uint32_t nworkers)
{
	printf("%u training and %u test images, %" PRIu64 " parameters, %u learner%s of the "
	       "parameter server at %s\n",
	       task->data.train.nitems, task->data.test.nitems, task->net.nparams, nworkers,
	       nworkers == 1 ? "" : "s", ps_address(ps));
	fflush(stdout);
}

enum rc
server_run(struct gpusim *g, const struct task *task, uint32_t n, const struct checkpoint *from,
	   struct report *report, struct saver *saver, struct err *err)
{
	struct session s = {.report = report, .saver = saver, .config = task->config};
	struct ps *ps = NULL;
	enum rc rc;

	publisher_init(&s.publisher, g, task);
	rc = open_server(&s, g, task, n, from, &ps, err);
	if (rc == RC_OK) {
		say_start(task, ps, n - 1);
		rc = train(&s, ps, err);
	}
	if (rc == RC_OK && (task->config->save || task->config->deterministic))
		rc = keep_weights(ps, task, err);
	ps_free(ps);
	return rc;
}

enum rc
server_open(const char *who, struct gpusim **g, struct err *err)
{
	uint64_t patience = deadline_in_ms(TASK_AWAY_MS);
	bool waits = false;
	enum rc rc;

	while ((rc = (enum rc)gpusim_open(NULL, g)) == RC_UNREACHABLE &&
	       deadline_left_ms(patience) > 0) {
		if (!waits)
			log_line(LOG_WARN, "%swaiting for the coordinator: %s", who,
				 gpusim_error());
		waits = true;
		clock_sleep(50 * NS_PER_MS);
	}
	if (rc != RC_OK)
		return err_set(err, rc, "%s", gpusim_error());
	gpusim_set_away_ms(*g, TASK_AWAY_MS);
	return RC_OK;
}

enum rc
server_learn(const struct train_config *o, const struct task *task, struct err *err)
{
	const char *coord = getenv("GPUSIM_COORD");
	struct gpusim *g;
	enum rc rc;

	if (!coord || !*coord)
		return err_set(err, RC_INVAL, "--learn: needs GPUSIM_COORD");
	rc = server_open("learner: ", &g, err);
	if (rc != RC_OK)
		return rc;
	rc = ps_learn(g, task, o, err);
	gpusim_close(g);
	return rc == RC_OK ? rc : err_prefix(err, "learner");
}
