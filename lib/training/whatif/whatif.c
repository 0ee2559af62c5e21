#include "whatif/whatif.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "base/must.h"
#include "base/option_rows.h"
#include "base/parse.h"

#define DAY	   86400.0
#define MAX_EVENTS 10000000u
#define MAX_AWAY   4096u

const char *
whatif_policy_name(unsigned policy)
{
	static const char *const names[WHATIF_NPOLICIES] = {"restart", "shrink", "respawn",
							    "spare"};

	return policy < WHATIF_NPOLICIES ? names[policy] : NULL;
}

double
whatif_rate(const struct whatif_rates *r, uint32_t hosts)
{
	double sum = 0;

	for (size_t i = 0; i < r->nkinds; i++)
		sum += r->kind[i].per_host_day;
	return sum * hosts / DAY;
}

double
whatif_young(double checkpoint_s, double mtbf_s)
{
	return sqrt(2 * checkpoint_s * mtbf_s);
}

double
whatif_daly(double c, double m)
{
	double x = sqrt(c / (2 * m));

	return c < 2 * m ? whatif_young(c, m) * (1 + x / 3 + x * x / 9) - c : m;
}

/* ---- files of rates */

struct rates_file {
	struct whatif_rates *rates;
	double hosts, days;
	const char *source;
};

#define OPTION_TARGET struct rates_file
static const struct option_row rows[] = {
    {"hosts", "N", "number of observed hosts", AS_DOUBLE(hosts, 1, 1e6)},
    {"days", "N", "days of observation", AS_DOUBLE(days, 1e-3, 1e6)},
    {"source", "WORDS", "where the numbers are from", AS_ANY_STRING(source)},
};

static enum rc
take_kind(void *target, const char *section, const char *key, const char *value, bool *mine,
	  struct err *err)
{
	struct rates_file *f = target;
	struct whatif_kind *k = &f->rates->kind[f->rates->nkinds];

	*mine = !*section;
	if (*mine)
		return RC_OK;
	if (strcmp(section, "failures") != 0)
		return err_set(err, RC_INVAL, "unknown section [%.40s]: must be [failures]",
			       section);
	if (f->rates->nkinds == WHATIF_MAX_KINDS)
		return err_set(err, RC_INVAL, "more than %d kinds", WHATIF_MAX_KINDS);
	if (strlen(key) >= sizeof k->name)
		return err_set(err, RC_INVAL, "a name longer than %d bytes", WHATIF_NAME - 1);
	snprintf(k->name, sizeof k->name, "%s", key);
	f->rates->nkinds++;
	return parse_double(value, 0, 1e9, &k->per_host_day, err);
}

enum rc
whatif_rates_read(const char *text, const char *name, struct whatif_rates *out, struct err *err)
{
	struct whatif_rates rates = {0};
	struct rates_file f = {.rates = &rates};
	struct option_set set = {.usage = "failures",
				 .rows = rows,
				 .n = NROWS(rows),
				 .target = &f,
				 .strict = true,
				 .in_section = take_kind};
	enum rc rc = option_file_text(&set, text, name, OPTION_FROM_FILES, err);

	if (rc == RC_OK)
		rc = option_file_check(&set, err);
	if (rc == RC_OK && (f.hosts <= 0 || f.days <= 0))
		rc = err_set(err, RC_INVAL, "%s: hosts and days are missing", name);
	if (rc == RC_OK && !rates.nkinds)
		rc = err_set(err, RC_INVAL, "%s: [failures] is empty", name);
	for (size_t i = 0; i < rates.nkinds; i++)
		rates.kind[i].per_host_day /= f.hosts * f.days;
	snprintf(rates.source, sizeof rates.source, "%s", f.source ? f.source : "");
	option_fini(&set);
	if (rc == RC_OK)
		*out = rates;
	return rc;
}

/* ---- the simulation */

struct world {
	const struct whatif *w;
	struct whatif_answer *out;
	double period;		/* an interval and its checkpoint */
	double clock, position; /* in the period */
	double away[MAX_AWAY];	/* when hosts under repair return */
	uint32_t naway;
	uint64_t random;
};

/* splitmix64, as a number in (0, 1]. */
static double
draw(struct world *x)
{
	return ((double)(splitmix64(&x->random) >> 11) + 1) / 9007199254740992.0;
}

static uint32_t
active(const struct world *x)
{
	return x->w->policy == WHATIF_SHRINK ? x->w->hosts - x->naway : x->w->hosts;
}

static double
next_failure(struct world *x)
{
	return -log(draw(x)) / whatif_rate(x->w->rates, active(x));
}

/* The work in a time of uninterrupted training. */
static double
work_in(const struct world *x, double seconds)
{
	double periods = floor(seconds / x->period), rest = seconds - periods * x->period;

	return periods * x->out->interval_s + fmin(rest, x->out->interval_s);
}

/* Train for a time. */
static void
train(struct world *x, double seconds)
{
	double to = x->position + seconds, work = work_in(x, to) - work_in(x, x->position);
	double share = (double)active(x) / x->w->hosts;

	x->out->goodput += share * work;
	x->out->lost_hosts += (1 - share) * work;
	x->out->lost_checkpoint += seconds - work;
	x->position = to - floor(to / x->period) * x->period;
	x->clock += seconds;
}

/* Be stopped, until the clock's end at most; return the time lost. */
static double
lose(struct world *x, double seconds, double *account)
{
	double left = x->w->seconds - x->clock, lost = fmin(seconds, fmax(left, 0));

	*account += lost;
	x->clock += lost;
	return lost;
}

/* The earliest host that is away, NULL: none. */
static double *
first_back(struct world *x)
{
	double *first = NULL;

	for (uint32_t i = 0; i < x->naway; i++)
		if (!first || x->away[i] < *first)
			first = &x->away[i];
	return first;
}

static void
come_back(struct world *x)
{
	double *first;

	while ((first = first_back(x)) && *first <= x->clock)
		*first = x->away[--x->naway];
}

static size_t
kind_of(struct world *x)
{
	const struct whatif_rates *r = x->w->rates;
	double at = draw(x) * whatif_rate(r, 1) * DAY;
	size_t k = 0;

	while (k + 1 < r->nkinds && at > r->kind[k].per_host_day)
		at -= r->kind[k++].per_host_day;
	return k;
}

/* Repeat all work since the last checkpoint. */
static double
roll_back(struct world *x)
{
	double again = fmin(x->position, x->out->interval_s);

	x->out->goodput -= again;
	x->out->lost_again += again;
	x->position = 0;
	return again;
}

/* The others' memory has the state; repeat the step. */
static double
go_on(struct world *x)
{
	double share = (double)active(x) / x->w->hosts;
	double again = fmin(draw(x) * x->w->step_s, fmin(x->position, x->out->interval_s));

	x->out->goodput -= again * share;
	x->out->lost_again += again * share;
	return again;
}

static bool
leaves(const struct world *x)
{
	return x->w->policy == WHATIF_SHRINK || x->w->policy == WHATIF_SPARE;
}

static void
strike(struct world *x, size_t k)
{
	x->out->happened++;
	x->out->count_kind[k]++;
	if (leaves(x) && x->naway < MAX_AWAY && x->naway + 1 < x->w->hosts)
		x->away[x->naway++] = x->clock + x->w->repair_s;
}

/*
 * From a failure to the next step: detect it, wait for a host if no spare is left, start all again. If a
 * host fails meanwhile, begin again. Work since the last checkpoint is lost once.
 */
static void
outage(struct world *x)
{
	const struct whatif *w = x->w;
	bool restarts = w->policy == WHATIF_RESTART, whole = false, gone = false;

	while (!whole && x->clock < w->seconds) {
		size_t k = kind_of(x);
		double next, lost = 0;
		struct {
			double seconds, *account;
		} part[3] = {{w->detect_s, &x->out->lost_detect}, {0, &x->out->lost_hosts}};

		strike(x, k);
		if (w->policy == WHATIF_SPARE && x->naway > w->spares) {
			part[1].seconds = fmax(*first_back(x) - x->clock - w->detect_s, 0);
			restarts = true;
		}
		part[2].seconds = restarts ? w->restart_s : w->recover_s;
		part[2].account = &x->out->lost_restart;
		next = next_failure(x);
		whole = true;
		for (size_t i = 0; i < 3 && whole; i++) {
			whole = next >= part[i].seconds;
			lost += lose(x, fmin(next, part[i].seconds), part[i].account);
			next -= part[i].seconds;
		}
		come_back(x);
		if (!gone || restarts)
			lost += restarts ? roll_back(x) : go_on(x);
		gone = true;
		x->out->lost_kind[k] += lost;
	}
}

static void
simulate(struct world *x)
{
	double next = next_failure(x);

	for (uint32_t i = 0; i < MAX_EVENTS && x->clock < x->w->seconds; i++) {
		double *back = x->w->policy == WHATIF_SHRINK ? first_back(x) : NULL;
		double until = fmin(next, x->w->seconds - x->clock);
		bool returns = back && *back - x->clock < until;

		if (returns)
			until = fmax(*back - x->clock, 0);
		train(x, until);
		come_back(x);
		if (!returns && x->clock < x->w->seconds)
			outage(x);
		next = next_failure(x);
	}
}

static enum rc
check(const struct whatif *w, struct err *err)
{
	if (!w->hosts || whatif_rate(w->rates, w->hosts) <= 0)
		return err_set(err, RC_INVAL, "the rates have no failures");
	if (w->seconds <= 0 || w->checkpoint_s <= 0 || w->interval_s < 0 || w->step_s <= 0 ||
	    w->detect_s < 0 || w->restart_s < 0 || w->recover_s < 0 || w->repair_s < 0)
		return err_set(err, RC_INVAL, "a time is not positive");
	if (whatif_rate(w->rates, w->hosts) * w->seconds > MAX_EVENTS / 4)
		return err_set(err, RC_INVAL, "more than %u failures", MAX_EVENTS / 4);
	return RC_OK;
}

enum rc
whatif_run(const struct whatif *w, struct whatif_answer *out, struct err *err)
{
	struct world *x;
	double *shares;
	enum rc rc = check(w, err);

	if (rc != RC_OK)
		return rc;
	x = must_alloc(1, sizeof *x);
	*out = (struct whatif_answer){.interval_s = w->interval_s};
	out->mtbf_s = 1 / whatif_rate(w->rates, w->hosts);
	out->failures = w->seconds / out->mtbf_s;
	if (out->interval_s <= 0)
		out->interval_s = whatif_daly(w->checkpoint_s, out->mtbf_s);
	x->w = w;
	x->out = out;
	x->period = out->interval_s + w->checkpoint_s;
	x->random = w->seed;
	simulate(x);
	shares = &out->goodput;
	for (size_t i = 0; i < 6; i++)
		shares[i] /= w->seconds;
	for (size_t i = 0; i < w->rates->nkinds; i++)
		out->lost_kind[i] /= w->seconds;
	free(x);
	return RC_OK;
}
