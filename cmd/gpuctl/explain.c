/* gpuctl explain - print in words what each communicator is doing, which rank holds it up, and why. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/must.h"
#include "cli.h"
#include "observe.h"
#include "view/explain.h"

#define ANSWER_MS 10000 /* for the coordinator, unless --timeout is given */
#define RECORDS	  512	/* of each ring: enough to see what ended last */

static void
print_json(const struct world *w, uint64_t comm, const struct buf *text,
	   const struct explanation *how)
{
	struct json j = {stdout, false};

	json_put(&j, "{state:%s", explain_state_name(how->state));
	if (*how->cause)
		json_put(&j, "cause:%s", how->cause);
	json_put(&j, "at_ms:%" PRIu64, w->now_ns / 1000000);
	if (comm)
		json_put(&j, "comm:%" PRIu64, comm);
	if (w->report)
		json_put(&j, "report:%" PRIu64, w->report);
	json_put(&j, "text:%s}\n", text->data ? text->data : "");
}

/* Get the world from the coordinator. If it is stopped or does not answer in time, read the recorders of
 * this host; then c->pid is set. */
static enum rc
look(struct cli *cli, const struct args *a, struct world **out, struct coordinator *c,
     struct err *err)
{
	struct err why;
	enum rc rc;

	if (a->report)
		return world_of_report(a->report, out, err);
	if (observe_coordinator(cli->coordinator, c, &why) == RC_OK &&
	    (c->process == 'T' || c->process == 't') &&
	    observe_alone(c, RECORDS, out, &why) == RC_OK)
		return RC_OK;
	if (!cli->timeout_ms)
		cli->timeout_ms = ANSWER_MS;
	rc = cli_open(cli, err);
	if (rc == RC_OK)
		rc = observe_world(cli->g, RECORDS, out, err);
	if (c->pid && (rc == RC_TIMEOUT || rc == RC_UNREACHABLE) &&
	    observe_coordinator(cli->coordinator, c, &why) == RC_OK &&
	    observe_alone(c, RECORDS, out, &why) == RC_OK)
		return RC_OK;
	c->pid = 0;
	return rc;
}

enum rc
run_explain(struct cli *cli, const struct args *a, struct err *err)
{
	struct explanation how = {EXPLAIN_IDLE, ""};
	struct world *w = NULL;
	struct buf text = {0};
	uint64_t comm = a->comm;
	struct coordinator c = {0};
	enum rc rc = look(cli, a, &w, &c, err);

	if (rc == RC_OK && c.pid)
		explain_alone(c.pid, c.process, c.tracer, &text);
	if (rc == RC_OK && a->report && !comm)
		comm = w->failed_comm;
	if (rc == RC_OK && comm)
		rc = explain_comm(w, comm, false, &text, &how, err);
	else if (rc == RC_OK)
		explain_world(w, &text, &how);
	if (rc == RC_OK && c.pid)
		how = (struct explanation){EXPLAIN_WAITS, "coordinator"};
	if (rc == RC_OK)
		must_add(&text, "", 1);
	if (rc == RC_OK && a->json)
		print_json(w, comm, &text, &how);
	else if (rc == RC_OK)
		fputs(text.data, stdout);
	if (rc == RC_OK && how.state >= EXPLAIN_WAITS)
		cli->status = EXIT_FAILED;
	buf_fini(&text);
	world_free(w);
	return rc;
}
