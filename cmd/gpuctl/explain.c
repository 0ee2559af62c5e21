/* gpuctl explain - what each communicator does, who holds it up and why, in words. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "cli.h"
#include "observe.h"
#include "view/explain.h"

#define RECORDS 512 /* of each ring: enough to know what ended last */

static void
print_json(const struct world *w, uint64_t comm, const struct buf *text, enum explain_state s)
{
	printf("{\"state\":\"%s\",\"at_ms\":%" PRIu64, explain_state_name(s), w->now_ns / 1000000);
	if (comm)
		printf(",\"comm\":%" PRIu64, comm);
	if (w->report)
		printf(",\"report\":%" PRIu64, w->report);
	json_member("text", text->data ? text->data : "", stdout);
	puts("}");
}

static enum rc
look(struct cli *cli, const struct args *a, struct world **out, struct err *err)
{
	enum rc rc;

	if (a->report)
		return world_of_report(a->report, out, err);
	rc = cli_open(cli, err);
	return rc == RC_OK ? observe_world(cli->g, RECORDS, out, err) : rc;
}

enum rc
run_explain(struct cli *cli, const struct args *a, struct err *err)
{
	enum explain_state state = EXPLAIN_IDLE;
	struct world *w = NULL;
	struct buf text = {0};
	uint64_t comm = a->comm;
	enum rc rc = look(cli, a, &w, err);

	if (rc == RC_OK && a->report && !comm)
		comm = w->failed_comm;
	if (rc == RC_OK && comm)
		rc = explain_comm(w, comm, false, &text, &state, err);
	else if (rc == RC_OK)
		rc = explain_world(w, &text, &state, err);
	if (rc == RC_OK && !buf_add(&text, "", 1))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK && a->json)
		print_json(w, comm, &text, state);
	else if (rc == RC_OK)
		fputs(text.data, stdout);
	if (rc == RC_OK && state >= EXPLAIN_WAITS)
		cli->status = EXIT_FAILED;
	buf_fini(&text);
	world_free(w);
	return rc;
}
