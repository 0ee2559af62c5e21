/*
 * metrics.h - a world as Prometheus and OpenMetrics read it.
 *
 * Names follow Prometheus' conventions: base units, _total, the prefix gpusim_; process_ for the coordinator's process.
 * Histograms and most counters are sums over all devices; of each device there are some gauges and counters, labelled
 * device (its id in hex) and gpu (its ordinal). The number of a communicator never is a label.
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

/* By a request's Accept header, which may be NULL: OpenMetrics only where that asks for it, and no less than for other
 * text. */
enum metrics_form metrics_form_of(const char *accept);

/* The answer's Content-Type. Static. */
const char *metrics_type(enum metrics_form form);

/* The process that answers; what is 0 is left out. */
struct metrics_process {
	uint64_t open_fds, max_fds;
	uint64_t resident_bytes;
	uint64_t cpu_ns;
};

/*
 * What the devices' counters came to, those included that are gone: so sums never go back when a device dies, or
 * begins again with counters of 0. One for each process that serves metrics. One thread at a time.
 */
struct metrics;

struct metrics *metrics_new(void); /* NULL: out of memory */
void metrics_free(struct metrics *m);

/*
 * metrics_text - append all metrics. A world that was read without records (world_read with 0) is enough.
 *
 *	m	takes the world's counters in; NULL: those of this world alone
 *
 * RC_NOMEM; the text is not whole then.
 * Checked by: tests/unit/view/t_metrics.c, tests/bats/metrics.bats (promtool)
 */
enum rc metrics_text(struct metrics *m, const struct world *w, const struct metrics_process *self,
		     enum metrics_form form, struct buf *out, struct err *err);

#endif
