/* gpuctl trace - write a timeline of the devices' operations, for Perfetto and chrome://tracing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli.h"
#include "drain/drain.h"
#include "observe.h"
#include "view/timeline.h"
#include "view/world.h"

static enum rc
check(const struct args *a, struct err *err)
{
	if (a->report && a->for_ms)
		return err_set(err, RC_INVAL,
			       "--for: cannot be combined with --report, which has only the past");
	if (a->for_ms && a->last_ms)
		return err_set(err, RC_INVAL, "--for: cannot be combined with --last");
	return RC_OK;
}

static enum rc
write_past(struct cli *cli, const struct args *a, int fd, struct timeline_sum *sum, struct err *err)
{
	struct world *w = NULL;
	enum rc rc;

	if (a->report)
		rc = world_of_report(a->report, &w, err);
	else if ((rc = cli_open(cli, err)) == RC_OK)
		rc = observe_world(cli->g, SIZE_MAX, &w, err);
	if (rc == RC_OK)
		rc = timeline_of_world(w, a->last_ms * NS_PER_MS, drain_file_write, &fd, sum, err);
	world_free(w);
	return rc;
}

/* Write what the devices do from now on, with all steps. */
static enum rc
write_future(struct cli *cli, const struct args *a, int fd, struct timeline_sum *sum,
	     struct err *err)
{
	uint64_t end = deadline_in_ms(a->for_ms);
	struct err ended = {0};
	struct drain *d;
	uint32_t idle_ms;
	enum rc rc = drain_new(cli->coordinator, drain_file_write, &fd, &d, err);

	if (rc != RC_OK)
		return rc;
	while (rc == RC_OK && clock_now_ns() < end) {
		rc = drain_turn(d, &idle_ms, err);
		nanosleep(&(struct timespec){.tv_nsec = (long)(idle_ms * NS_PER_MS)}, NULL);
	}
	drain_end(d, sum, &ended);
	return rc == RC_OK && ended.rc != RC_OK ? err_set(err, ended.rc, "%s", ended.text) : rc;
}

enum rc
run_trace(struct cli *cli, const struct args *a, struct err *err)
{
	const char *path = a->output && strcmp(a->output, "-") != 0 ? a->output : NULL;
	struct timeline_sum sum = {0};
	int fd = STDOUT_FILENO;
	char told[512];
	enum rc rc = check(a, err);

	if (rc == RC_OK && path)
		rc = drain_file_open(path, &fd, err);
	if (rc != RC_OK)
		return rc;
	rc = a->for_ms ? write_future(cli, a, fd, &sum, err) : write_past(cli, a, fd, &sum, err);
	if (path && close(fd) != 0 && rc == RC_OK)
		rc = err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	if (rc == RC_OK && path) {
		drain_tell(&sum, path, told, sizeof told);
		fprintf(stderr, "gpuctl: %s\n", told);
	}
	return rc;
}
