/* gpuctl bench - how fast a collective is, and whether it is right. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "bench_cli.h"
#include "coll/plan.h"
#include "hold.h"
#include "io.h"
#include "operation.h"
#include "recover.h"

#define TIMEOUT_MS 600000 /* of one call, unless --timeout: it may be a whole measurement */

static enum rc
go_on(void *cli, struct gpusim_comm **comm, uint32_t *was, enum rc rc, struct err *err)
{
	return recover(cli, comm, was, rc, err);
}

enum rc
bench_cli_open(struct bench_cli *b, enum gpusim_coll coll, struct bench **out, struct err *err)
{
	const struct args *a = b->a;
	struct args factored = *a; /* by lib/bench, which checks the results */
	char what[32];
	uint32_t n;
	enum rc rc = cli_open(b->cli, err);

	if (!a->typed)
		factored.dtype = GPUSIM_F32;
	if (a->redop == GPUSIM_PREMULSUM)
		factored.scalar = "2";
	if (rc == RC_OK && !b->cli->timeout_ms)
		gpusim_set_timeout_ms(b->cli->g, TIMEOUT_MS);
	if (rc == RC_OK)
		rc = cli_nranks_or_all(b->cli, a, &n, err);
	b->cfg = (struct bench_config){.g = b->cli->g,
				       .comm = &b->comm,
				       .min_bytes = a->min_bytes,
				       .max_bytes = a->max_bytes,
				       .fits = !args_given(a, max_bytes),
				       .factor = a->factor,
				       .iters = a->iters,
				       .warmup = a->warmup,
				       .rewrite = a->rewrite,
				       .baseline = &b->baseline,
				       .recover = go_on,
				       .arg = b->cli};
	if (rc == RC_OK)
		rc = operation_common(coll, &factored, n, &b->cfg.c, err);
	if (rc != RC_OK)
		return rc;
	b->algo = a->algo && *a->algo ? a->algo : "auto";
	snprintf(what, sizeof what, "%" PRIu32 " rank%s", n, n == 1 ? "" : "s");
	rc = cli_lease_comm(b->cli, a, n, what, &b->comm, err);
	return rc == RC_OK ? bench_open(&b->cfg, out, err) : rc;
}

void
bench_cli_close(struct bench_cli *b, struct bench *bench, enum rc rc)
{
	bench_close(bench, rc);
	hold_release(b->cli, b->comm);
}

/* Of a file; "-" is standard input. */
static enum rc
read_baseline(const char *path, struct baseline *out, struct err *err)
{
	bool dash = strcmp(path, "-") == 0;
	int fd = dash ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	struct buf text = {0};
	enum rc rc;

	if (fd < 0)
		return err_set(err, RC_FAILED, "%.200s: %s", path, strerror(errno));
	rc = io_read_all(fd, path, &text, err);
	if (!dash)
		close(fd);
	if (rc == RC_OK && !buf_add(&text, "", 1))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK && baseline_parse(text.data, out, err) != RC_OK)
		rc = err_prefix(err, "%.200s", path);
	buf_fini(&text);
	return rc;
}

static enum rc
run(struct bench_cli *b, struct bench *bench, struct err *err)
{
	struct bench_summary sum;

	bench_print_head(b, bench_max_bytes(bench));
	if (bench_run(bench, bench_print_row, b, &sum, err) != RC_OK)
		return err->rc;
	bench_print_foot(b, &sum);
	if (sum.nwrong)
		return err_set(err, RC_FAILED, "%" PRIu64 " wrong elements", sum.nwrong);
	if (b->a->max_slowdown && sum.worst > b->a->max_slowdown) {
		log_line(LOG_ERROR, "bench: %.3g times as long as in %.200s, at most %.3g",
			 sum.worst, b->a->baseline, b->a->max_slowdown);
		b->cli->status = BENCH_EXIT_SLOWER;
	}
	return RC_OK;
}

enum rc
run_bench(struct cli *cli, const struct args *a, struct err *err)
{
	struct bench_cli b = {.cli = cli, .a = a};
	struct bench *bench = NULL;
	enum gpusim_coll coll;
	enum rc rc = coll_parse(a->nrest ? a->rest[0] : "allreduce", &coll, err);

	if (rc == RC_OK && coll_is_sendrecv(coll))
		return err_set(err, RC_INVAL, "%s is no collective", a->rest[0]);
	if (rc == RC_OK && a->min_bytes > a->max_bytes)
		return err_set(err, RC_INVAL, "-b is more than -e");
	if (rc == RC_OK && a->max_slowdown && !a->baseline)
		return err_set(err, RC_INVAL, "--max-slowdown needs --baseline");
	if (rc == RC_OK && a->baseline)
		rc = read_baseline(a->baseline, &b.baseline, err);
	if (rc == RC_OK)
		rc = bench_cli_open(&b, coll, &bench, err);
	if (rc == RC_OK)
		rc = run(&b, bench, err);
	bench_cli_close(&b, bench, rc);
	baseline_fini(&b.baseline);
	return rc;
}
