/* mnist-train - data-parallel training on simulated GPUs. See mnist-train(1). */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/must.h"
#include "account.h"
#include "asking.h"
#include "compare.h"
#include "drain/drain.h"
#include "options.h"
#include "ps/ps.h"
#include "report.h"
#include "saver.h"
#include "server.h"
#include "train/model.h"

#define DEFAULT_DEVICES 4
#define LEASES_MS	70000 /* if the coordinator was killed, too, it frees devices after 60 s */

static bool
has_data(const char *dir)
{
	static const char *const names[] = {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz",
					    "train-images.idx3-ubyte",
					    "train-images.idx3-ubyte.gz"};
	char path[PATH_MAX + 64];

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		if (access(path, R_OK) == 0)
			return true;
	}
	return false;
}

/* Find MNIST without --data: in $GPUSIM_DATA, here, next to the build, installed. */
static enum rc
find_data(char out[PATH_MAX], struct err *err)
{
	const char *env = getenv("GPUSIM_DATA");
	char own[PATH_MAX], path[2][PATH_MAX + 32];

	host_own_folder(own, sizeof own);
	snprintf(path[0], sizeof path[0], "%s/../../data/mnist", own);
	snprintf(path[1], sizeof path[1], "%s/../share/gpusim/mnist", own);
	const char *const places[] = {env, "data/mnist", path[0], path[1]};
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
		if (places[i] && *places[i] && has_data(places[i])) {
			snprintf(out, PATH_MAX, "%s", places[i]);
			return RC_OK;
		}
	return err_set(err, RC_FAILED,
		       "MNIST not found in $GPUSIM_DATA, in data/mnist or next to the program: "
		       "run 'gpusim-fetch-mnist data/mnist', or use --data DIR");
}

/* A relative path that does not exist here may be next to the program, in its sources or installed. */
static const char *
find_path(const char *given, char out[PATH_MAX])
{
	static const char *const places[] = {"../..", "../../examples", "../share/gpusim"};
	char own[PATH_MAX];

	host_own_folder(own, sizeof own);
	for (size_t i = 0;
	     *given != '/' && access(given, F_OK) != 0 && i < sizeof places / sizeof places[0]; i++)
		if (snprintf(out, PATH_MAX, "%s/%s/%s", own, places[i], given) < PATH_MAX &&
		    access(out, F_OK) == 0)
			return out;
	return given;
}

/* Without a cluster: run this program again under gpuctl run with n devices. Returns only on failure. */
static enum rc
start_cluster(const struct train_config *o, uint32_t n, uint64_t bytes_each, struct err *err)
{
	uint64_t mem = bytes_each + (16u << 20); /* and some room beyond the one allocation */
	char own[PATH_MAX], gpuctl[PATH_MAX + 8], self[PATH_MAX + 16], devices[16], bytes[24];
	char **args = NULL, **own_args;
	enum rc rc = config_args(o, NULL, &own_args, err);
	size_t k = 0, n_own = 0;

	if (rc != RC_OK)
		return rc;
	host_own_folder(own, sizeof own);
	snprintf(gpuctl, sizeof gpuctl, "%s/gpuctl", own);
	snprintf(self, sizeof self, "%s/mnist-train", own);
	snprintf(devices, sizeof devices, "%u", n);
	snprintf(bytes, sizeof bytes, "%" PRIu64, mem);
	const char *const head[] = {
	    gpuctl,  "run", "-n",	    devices,
	    "--mem", bytes, "--on-failure", gpusim_on_failure_name(o->on_failure)};
	const char *const spare[] = {"--spares", "1"};
	/* Room for all records of a step. */
	const char *const recorder[] = {"--recorder", "16K"};
	const size_t nhead = sizeof head / sizeof head[0], nspare = sizeof spare / sizeof spare[0];
	const size_t nrecorder = sizeof recorder / sizeof recorder[0];

	while (own_args[n_own])
		n_own++;
	/* "--" twice, this program, and the NULL. */
	args = must_alloc(nhead + nspare + nrecorder + n_own + o->nfiles + 4, sizeof *args);
	for (; k < nhead; k++)
		args[k] = (char *)head[k];
	for (size_t i = 0; o->on_failure == GPUSIM_ON_FAILURE_SPARE && i < nspare; i++)
		args[k++] = (char *)spare[i];
	for (size_t i = 0; o->account && i < nrecorder; i++)
		args[k++] = (char *)recorder[i];
	args[k++] = (char *)"--";
	args[k++] = self;
	memcpy(args + k, own_args, n_own * sizeof *args);
	k += n_own;
	args[k++] = (char *)"--";
	for (size_t i = 0; i < o->nfiles; i++)
		args[k++] = o->files[i];
	execv(gpuctl, args);
	execvp("gpuctl", args);
	rc = err_set(err, RC_FAILED, "cannot run gpuctl: %s", strerror(errno));
	option_args_free(own_args);
	free(args);
	return rc;
}

/* The devices of one data-parallel group. */
static uint32_t
grid_parts(const struct train_config *o)
{
	return (o->parallel.tp ? o->parallel.tp : 1) * (o->parallel.pp ? o->parallel.pp : 1);
}

static enum rc
start_training(const struct task *task, uint64_t global, struct err *err)
{
	const struct train_config *o = task->config;
	uint32_t parts = grid_parts(o);
	uint32_t n = o->devices ? o->devices : (DEFAULT_DEVICES + parts - 1) / parts * parts;

	return start_cluster(
	    o, n, o->sync == SYNC_PS ? ps_bytes(task, n - 1) : trainer_bytes(task, global, n), err);
}

static enum rc
ask(const struct train_config *o, struct err *err)
{
	const char *coord = getenv("GPUSIM_COORD");
	struct asking a = {0};
	struct gpusim *g = NULL;
	enum rc rc = asking_open(&a, o, err);

	if (rc == RC_OK && (!coord || !*coord))
		rc = start_cluster(o, 1, predictor_bytes(&a.model), err);
	if (rc == RC_OK) {
		rc = (enum rc)gpusim_open(NULL, &g);
		if (rc != RC_OK)
			err_set(err, rc, "%s", gpusim_error());
	}
	if (rc == RC_OK)
		rc = o->eval ? asking_eval(&a, g, err) : asking_infer(&a, g, err);
	gpusim_close(g);
	asking_fini(&a);
	return rc;
}

/* Become a rank of the MPI job that this process is in. Returns only on failure. */
static enum rc
become_rank(const struct train_config *o, struct err *err)
{
	char own[PATH_MAX], program[PATH_MAX + 24], **options, **args;
	enum rc rc = config_args(o, NULL, &options, err);
	size_t n = 0;

	if (rc != RC_OK)
		return rc;
	while (options[n])
		n++;
	host_own_folder(own, sizeof own);
	snprintf(program, sizeof program, "%s/mnist-train-mpi", own);
	args = must_alloc(n + 2, sizeof *args);
	args[0] = program;
	memcpy(args + 1, options, n * sizeof *args);
	execv(program, args);
	rc = errno == ENOENT
		 ? err_set(err, RC_FAILED, "--backend mpi: built without MPI: no %s", program)
		 : err_set(err, RC_FAILED, "%s: %s", program, strerror(errno));
	free(args);
	option_args_free(options);
	return rc;
}

/* Run the comparison, whose runs execute this program. */
static int
compare(const struct train_config *o, bool batchnorm)
{
	char own[PATH_MAX], self[PATH_MAX + 16];

	host_own_folder(own, sizeof own);
	snprintf(self, sizeof self, "%s/mnist-train", own);
	return compare_main(o, batchnorm, self);
}

/* The numbers of live devices that a communicator may take, and that are in one. */
struct census {
	uint32_t free, busy;
};

static enum rc
count(struct gpusim *g, struct census *c, struct err *err)
{
	struct gpusim_device_info *list;
	size_t n;
	enum rc rc = (enum rc)gpusim_devices(g, &list, &n);

	if (rc != RC_OK)
		return err_set(err, rc, "%s", gpusim_error());
	*c = (struct census){0};
	for (size_t i = 0; i < n; i++)
		if (!list[i].lost) {
			c->busy += list[i].comm.id != 0;
			c->free += list[i].comm.id == 0 && !list[i].spare;
		}
	free(list);
	return RC_OK;
}

/* No device is free: report the programs that use them. */
static enum rc
why_none(struct gpusim *g, struct err *err)
{
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};
	enum rc rc = (enum rc)gpusim_comm_init_all(g, 1, NULL, &config, NULL);

	if (rc == RC_OK)
		return err_set(err, RC_BUSY, "no device was free");
	err_set(err, rc, "%s", gpusim_error());
	return err_prefix(err, "no device is free");
}

/* The devices of a resumed training; any number suffices if the global batch was given. */
static uint32_t
usual_devices(const struct train_config *o)
{
	uint64_t workers = o->global_batch ? o->global > 0 : o->global / o->batch;

	return (uint32_t)workers + config_servers(o);
}

/* Count the requested devices, or all free ones. A resumed training may start before the leases of the
 * killed one have ended, so it waits for those devices. */
static enum rc
count_devices(struct gpusim *g, const struct train_config *o, uint32_t *n, struct err *err)
{
	uint32_t wanted = o->devices ? o->devices : usual_devices(o);
	uint64_t patience = deadline_in_ms(o->resume ? LEASES_MS : 0);
	struct census c = {0};
	enum rc rc = count(g, &c, err);

	if (rc == RC_OK && o->resume && c.free < wanted && c.busy)
		log_line(LOG_WARN, "waiting for devices: %u of %u are free", c.free, wanted);
	while (rc == RC_OK && c.free < wanted && c.busy && deadline_left_ms(patience) > 0) {
		clock_sleep(20 * NS_PER_MS);
		rc = count(g, &c, err);
	}
	if (rc != RC_OK)
		return rc;
	*n = o->devices ? o->devices : o->wait_ms ? c.free + c.busy : c.free;
	if (!o->devices && *n > grid_parts(o)) /* no device is taken to be idle */
		*n -= *n % grid_parts(o);
	return *n ? RC_OK : why_none(g, err);
}

static enum rc
keep_weights(struct trainer *t, const struct task *task, struct err *err)
{
	const struct train_config *o = task->config;
	float *params = must_alloc(task_values(task), sizeof *params);
	enum rc rc = trainer_weights(t, params, err);

	if (rc == RC_OK && o->save)
		rc = model_save(o->save, task, params, err);
	if (rc == RC_OK)
		report_weights(task, params);
	free(params);
	return rc;
}

/* The hooks' argument of a training. */
struct session {
	struct report report;
	struct saver saver;
	struct publisher publisher;
};

static void
on_progress(void *arg, double fraction)
{
	report_progress(&((struct session *)arg)->report, fraction);
}

static void
on_checkpoint(void *arg, struct trainer *t)
{
	saver_checkpoint(&((struct session *)arg)->saver, t);
}

static void
on_event(void *arg, const char *text)
{
	report_event(&((struct session *)arg)->report, text);
}

static void
say_start(const struct task *task, uint32_t ndevices, const struct checkpoint *from)
{
	const struct train_config *o = task->config;

	report_start(task, ndevices, "device");
	if (from)
		printf("continues from %s: %" PRIu64 " epoch%s and %" PRIu64 " of %" PRIu64
		       " steps done\n",
		       o->checkpoint, from->epoch, from->epoch == 1 ? "" : "s", from->step,
		       from->steps_an_epoch);
	else if (o->resume)
		printf("no checkpoint in %s: training starts from the beginning\n", o->checkpoint);
	fflush(stdout);
}

/* Publish the model after an epoch. If it cannot be read now, training continues and reports why. */
static void
publish(struct session *s, struct trainer *t, const struct task *task)
{
	float *values = s->publisher.off ? NULL : must_alloc(task_values(task), sizeof *values);
	struct err err = {0};

	if (values && trainer_weights(t, values, &err) == RC_OK)
		publisher_put(&s->publisher, trainer_steps(t), values);
	free(values);
}

static enum rc
train(struct session *s, struct trainer *t, const struct task *task, struct err *err)
{
	const struct train_config *o = task->config;
	struct epoch e;
	enum rc rc = RC_OK;

	while (rc == RC_OK && trainer_epochs(t) < o->epochs) {
		rc = trainer_epoch(t, &e, err);
		if (rc == RC_OK)
			rc = report_epoch(&s->report, &e, err);
		if (rc == RC_OK)
			publish(s, t, task);
		if (rc == RC_OK)
			publisher_epoch(&s->publisher, s->report.epoch - 1, &e);
	}
	return rc;
}

/* from: NULL, or the checkpoint to continue from. */
static enum rc
run(struct gpusim *g, const struct task *task, const struct checkpoint_terms *terms,
    const struct checkpoint *from, struct err *err)
{
	const struct train_config *o = task->config;
	struct session s = {0};
	struct trainer_hooks hooks = {.arg = &s};
	struct trainer *t = NULL;
	uint32_t n = 0;
	enum rc rc = saver_open(&s.saver, o, terms, err), closed;
	struct err close_err = {0};

	if (rc == RC_OK)
		rc = count_devices(g, o, &n, err);
	/* Last, because it truncates a file. */
	if (rc == RC_OK)
		rc = report_open(&s.report, o, from ? (uint32_t)from->epoch : 0, err);
	hooks.event = on_event;
	hooks.progress = s.report.bar ? on_progress : NULL;
	hooks.checkpoint = o->checkpoint ? on_checkpoint : NULL;
	if (rc == RC_OK)
		report_differs(task, n - (n > config_servers(o) ? config_servers(o) : 0));
	if (rc == RC_OK && o->sync == SYNC_PS) {
		rc = server_run(g, task, n, from, &s.report, &s.saver, err);
	} else if (rc == RC_OK) {
		rc = trainer_new(g, task, n, from, &hooks, &t, err);
		if (rc == RC_OK) {
			publisher_init(&s.publisher, g, task);
			say_start(task, trainer_devices(t), from);
			rc = train(&s, t, task, err);
		}
	}
	while (rc == RC_OK && t && (o->save || o->deterministic)) {
		rc = keep_weights(t, task, err);
		if (rc != RC_RECOVERED)
			break;
		rc = train(&s, t, task, err);
	}
	closed = saver_close(&s.saver, rc == RC_OK ? t : NULL, &close_err);
	if (rc == RC_OK && closed != RC_OK)
		rc = err_set(err, closed, "%s", close_err.text);
	if (rc == RC_OK && o->account)
		rc = account_run(g, t, s.report.json, err);
	trainer_free(t);
	closed = report_close(&s.report, &close_err);
	if (rc == RC_OK && closed != RC_OK)
		rc = err_set(err, closed, "%s", close_err.text);
	return rc;
}

static enum rc
run_traced(struct gpusim *g, const struct task *task, const struct checkpoint_terms *terms,
	   const struct checkpoint *from, struct err *err)
{
	struct drain_thread *drain = NULL;
	char told[512];
	struct err ended = {0};
	enum rc rc = RC_OK;

	if (task->config->trace)
		rc = drain_start(NULL, task->config->trace, &drain, err);
	if (rc != RC_OK)
		return err_prefix(err, "--trace");
	rc = run(g, task, terms, from, err);
	if (drain_stop(drain, told, sizeof told, &ended) != RC_OK && rc == RC_OK)
		return err_set(err, ended.rc, "--trace: %s", ended.text);
	if (*told && ended.rc == RC_OK)
		fprintf(stderr, "mnist-train: %s\n", told);
	return rc;
}

static void
say_damaged(void *arg, const char *reason)
{
	(void)arg;
	log_line(LOG_WARN, "%s: damaged; trying the previous checkpoint", reason);
}

/* The process that trains reports damaged checkpoints, not the one that starts its cluster. */
static void
say_nothing(void *arg, const char *reason)
{
	(void)arg;
	(void)reason;
}

/* Refuse what the net cannot; load an earlier training's checkpoint, if any; o->global: its images per step. */
static enum rc
prepare(struct train_config *o, const struct task *task, checkpoint_damaged_fn damaged,
	struct checkpoint_terms *terms, struct checkpoint *from, bool *found, struct err *err)
{
	enum rc rc;

	if (o->account && task->net.nstats)
		return err_set(err, RC_INVAL, "--account: not for a model with batch norm");
	if (!o->checkpoint)
		return RC_OK;
	*terms = task_terms(task);
	rc = saver_resume(o, terms, damaged, from, found, err);
	o->global = rc == RC_OK && *found ? from->global_batch : 0;
	return rc;
}

/* A learner that gets its samples from the server. */
static bool
is_fed(const struct train_config *o)
{
	return o->learn && o->feed == FEED_DATA;
}

int
main(int argc, char **argv)
{
	struct train_config o = {0};
	struct task task = {0};
	struct checkpoint_terms terms = {0};
	struct checkpoint from = {0};
	bool resumes = false;
	struct gpusim *g = NULL;
	char found[PATH_MAX];
	const char *coord = getenv("GPUSIM_COORD");
	struct err err = {0};
	enum rc rc;

	log_open("mnist-train", LOG_WARN);
	rc = log_check(&err);
	if (rc == RC_OK)
		rc = options_parse(argc, argv, &o, &err);
	if (rc == RC_OK && o.data) {
		o.data = find_path(o.data, found);
	} else if (rc == RC_OK && !o.infer && !is_fed(&o)) {
		rc = find_data(found, &err);
		o.data = rc == RC_OK ? found : NULL;
		if (rc != RC_OK && o.learn) { /* the server may send the samples */
			o.feed = FEED_DATA;
			rc = RC_OK;
		}
	}
	if (rc == RC_OK && (o.eval || o.infer)) {
		rc = ask(&o, &err);
		goto out;
	}
	if (rc == RC_OK && o.backend == BACKEND_MPI && !o.compare)
		rc = become_rank(&o, &err);
	if (rc == RC_OK && is_fed(&o)) {
		rc = server_learn(&o, NULL, &err);
		goto out;
	}
	if (rc == RC_OK)
		rc = task_open(&o, &task, &err);
	if (rc == RC_OK && o.compare) {
		bool batchnorm = task.net.nstats > 0;

		task_fini(&task);
		_exit(compare(&o, batchnorm));
	}
	if (rc == RC_OK && o.learn) {
		rc = server_learn(&o, &task, &err);
		goto out;
	}
	if (rc == RC_OK)
		rc = prepare(&o, &task, coord && *coord ? say_damaged : say_nothing, &terms, &from,
			     &resumes, &err);
	if (rc == RC_OK && (!coord || !*coord))
		rc = start_training(&task, o.global, &err);
	if (rc == RC_OK && (o.on_failure != GPUSIM_ON_FAILURE_ABORT || o.sync == SYNC_PS)) {
		rc = server_open("", &g, &err);
	} else if (rc == RC_OK) {
		rc = (enum rc)gpusim_open(NULL, &g);
		if (rc != RC_OK)
			err_set(&err, rc, "%s", gpusim_error());
	}
	if (rc == RC_OK)
		rc = run_traced(g, &task, &terms, resumes ? &from : NULL, &err);
out:
	if (rc != RC_OK)
		log_line(LOG_ERROR, "%s", err.text);
	gpusim_close(g);
	checkpoint_fini(&from);
	task_fini(&task);
	config_fini(&o);
	_exit(rc_exit(rc));
}
