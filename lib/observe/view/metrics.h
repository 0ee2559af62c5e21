/*
 * metrics.h - a world in the formats of Prometheus and OpenMetrics.
 *
 * Names follow Prometheus' conventions: base units, _total, the prefix gpusim_; process_ for the
 * coordinator's process. Histograms and most counters are sums over all devices; some gauges and
 * counters are per device, labelled device (its id in hex) and gpu (its ordinal). A communicator's
 * number is never a label.
 */
#ifndef VIEW_METRICS_H
#define VIEW_METRICS_H

#include "base/buf.h"
#include "base/rc.h"
#include "view/world.h"

enum metrics_form {
	METRICS_PROMETHEUS,  /* text 0.0.4 */
	METRICS_OPENMETRICS, /* 1.0.0 */
};

/* Choose by a request's Accept header, which may be NULL: OpenMetrics only if its quality is at least
 * that of plain text. */
enum metrics_form metrics_form_of(const char *accept);

/* The answer's Content-Type. Static. */
const char *metrics_type(enum metrics_form form);

/* The process that answers; zero values are left out. */
struct metrics_process {
	uint64_t open_fds, max_fds;
	uint64_t resident_bytes;
	uint64_t cpu_ns;
};

/*
 * Sums of the devices' counters, including those of lost devices: they never decrease when a device
 * dies, or restarts with counters of 0. One for each process that serves metrics. One thread at a time.
 */
struct metrics;

struct metrics *metrics_new(void); /* NULL: out of memory */
void metrics_free(struct metrics *m);

/*
 * metrics_text - append all metrics. A world that was read without records (world_read with 0) is enough.
 *
 *	m	adds the world's counters to its sums; NULL: only those of this world
 *
 * RC_NOMEM; the text is then incomplete.
 * Checked by: tests/unit/view/t_metrics.c, tests/bats/metrics.bats (promtool)
 */
enum rc metrics_text(struct metrics *m, const struct world *w, const struct metrics_process *self,
		     enum metrics_form form, struct buf *out, struct err *err);

#endif
