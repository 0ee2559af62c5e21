#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "train/differ.h"

#define BAR_WIDTH 40

/* Make fd 1 a copy of another descriptor. */
static enum rc
redirect_stdout(int to, struct err *err)
{
	if (fflush(stdout) != 0 || to < 0 || dup2(to, STDOUT_FILENO) < 0)
		return err_set(err, RC_FAILED, "standard output: %s", strerror(errno));
	return RC_OK;
}

static enum rc
silence_stdout(struct err *err)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	enum rc rc = redirect_stdout(null, err);

	if (null >= 0)
		close(null);
	return rc;
}

enum rc
report_streams(const struct train_config *o, bool more, FILE **json, struct err *err)
{
	bool dash = o->json && strcmp(o->json, "-") == 0;
	int fd = -1;

	if (dash)
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (dash)
		*json = fd < 0 ? NULL : fdopen(fd, "w");
	else if (o->json)
		*json = fopen(o->json, more ? "ae" : "we");
	if (o->json && !*json) {
		err_set(err, RC_FAILED, "%s: %s", dash ? "standard output" : o->json,
			strerror(errno));
		if (fd >= 0)
			close(fd);
		return err->rc;
	}
	if (o->quiet)
		return silence_stdout(err);
	return dash ? redirect_stdout(STDERR_FILENO, err) : RC_OK;
}

enum rc
report_open(struct report *r, const struct train_config *o, uint32_t done, struct err *err)
{
	*r = (struct report){.epochs = o->epochs, .epoch = done + 1, .bar = isatty(STDERR_FILENO)};
	if (o->save) {
		/* Before hours are spent. */
		enum rc rc = file_new_check(o->save, err);

		if (rc != RC_OK)
			return rc;
	}
	if (curves_open(&r->curves, o, err) != RC_OK)
		return err->rc;
	r->bar = r->bar && !o->quiet;
	r->method = o->compress.kind		 ? "--compress"
		    : o->outer == OUTER_NESTEROV ? "--outer nesterov"
						 : NULL;
	/* A training that resumes keeps the lines of the earlier epochs. */
	return report_streams(o, o->resume, &r->json, err);
}

void
report_start(const struct task *task, uint32_t n, const char *what)
{
	const struct dataset *data = &task->data;

	printf("%u training and %u test images, %" PRIu64 " parameters, %u %s%s\n",
	       data->train.nitems, data->test.nitems, task->net.nparams, n, what,
	       n == 1 ? "" : "s");
	fflush(stdout);
}

void
report_differs(const struct task *task, uint32_t nworkers)
{
	struct buf text = {0};

	/* Deterministic training uses leaves with every --sync. */
	if (task->config->deterministic)
		return;
	if (differ_of(task->config, nworkers, task->net.nstats > 0) & DIFFER_BATCHNORM) {
		differ_text(DIFFER_BATCHNORM, &text);
		log_line(LOG_WARN,
			 "--sync %s: %s: --sync allreduce and sendrecv use all images of a "
			 "step",
			 task->config->sync == SYNC_PS ? "ps" : "local", text.data);
	}
	buf_fini(&text);
}

void
report_weights(const struct task *task, const float *params)
{
	char digest[SHA256_TEXT];

	if (!task->config->deterministic)
		return;
	net_digest(&task->net, params, digest);
	printf("params sha256 %s\n", digest);
}

void
report_progress(const struct report *r, double fraction)
{
	static const char full[] = "########################################";
	int n = (int)(fraction * BAR_WIDTH);

	fprintf(stderr, "\repoch %u/%u [%-*.*s] %3.0f%%", r->epoch, r->epochs, BAR_WIDTH, n, full,
		fraction * 100);
}

void
report_event(struct report *r, const char *text)
{
	if (r->bar)
		fprintf(stderr, "\r\033[K");
	curves_lift(&r->curves);
	printf("%s\n", text);
	fflush(stdout);
	curves_drop(&r->curves);
}

static void
write_epoch(const struct report *r, const struct epoch *e)
{
	struct json j = {r->json, false};

	json_put(&j,
		 "{epoch:%u loss:%.9g test_accuracy:%.9g images_per_s:%.9g seconds:%.9g "
		 "compute_s:%.9g comm_s:%.9g",
		 r->epoch, e->loss, e->accuracy, e->images_per_s, e->seconds, e->compute_s,
		 e->comm_s);
	if (!isnan(e->validation))
		json_put(&j, "validation_accuracy:%.9g", e->validation);
	if (r->method)
		json_put(&j, "sent_bytes:%" PRIu64 " allreduce_bytes:%" PRIu64, e->sent_bytes,
			 e->allreduce_bytes);
	if (e->loss_scale > 0)
		json_put(&j, "loss_scale:%.9g skipped_steps:%u", e->loss_scale, e->skipped_steps);
	json_put(&j, "}\n");
}

enum rc
report_epoch(struct report *r, const struct epoch *e, struct err *err)
{
	if (r->bar)
		fprintf(stderr, "\r\033[K");
	curves_epoch(&r->curves, r->epoch, e);
	curves_lift(&r->curves);
	printf("epoch %u/%u  loss %.4f  ", r->epoch, r->epochs, isnan(e->loss) ? NAN : e->loss);
	if (!isnan(e->validation))
		printf("validation accuracy %.2f %%  ", e->validation * 100);
	printf(
	    "test accuracy %.2f %%  %.0f images/s  %.2f s (compute %.2f s, communication %.2f s)\n",
	    e->accuracy * 100, e->images_per_s, e->seconds, e->compute_s, e->comm_s);
	fflush(stdout);
	curves_drop(&r->curves);
	if (r->json) {
		write_epoch(r, e);
		if (fflush(r->json) != 0)
			return err_set(err, RC_FAILED, "--json: %s", strerror(errno));
	}
	r->epoch++;
	r->sent += e->sent_bytes;
	r->allreduce += e->allreduce_bytes;
	return RC_OK;
}

enum rc
report_close(struct report *r, struct err *err)
{
	enum rc rc = curves_close(&r->curves, err);

	if (r->method && r->sent)
		printf("%s: %" PRIu64 " bytes sent instead of %" PRIu64 ", %.1f times fewer\n",
		       r->method, r->sent, r->allreduce, (double)r->allreduce / (double)r->sent);

	if (r->json && fclose(r->json) != 0)
		rc = err_set(err, RC_FAILED, "--json: %s", strerror(errno));
	if (fflush(stdout) != 0 || ferror(stdout) || close(STDOUT_FILENO) != 0)
		rc = err_set(err, RC_FAILED, "standard output: %s", strerror(errno));
	return rc;
}
