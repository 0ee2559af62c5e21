#include "coll/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "coll/plan.h"

#define STEP ".step"
#define END  ".end"

static const char *const kinds[GPUSIM_NFAULTS] = {"kill",    "stop", "slow", "drop",
						  "corrupt", "cut",  "flip"};

static const struct {
	const char *takes, *help;
} about[GPUSIM_NFAULTS] = {
    {"", "the process ends as by SIGKILL"},
    {"[for=TIME]", "it freezes as by SIGSTOP"},
    {"by=TIME [count=N | for=TIME]", "each step waits this long"},
    {"[n=N] [p=P] [seed=S] [peer=RANK]", "frames that it sends are lost"},
    {"[n=N] [p=P] [seed=S] [peer=RANK]", "a byte of a chunk's frame changes"},
    {"[for=TIME] [peer=RANK]", "connections to other devices close"},
    {"at=POINT [seed=S]", "a bit of what the step reads changes; at .end of the result"},
};

const char *
fault_name(enum gpusim_fault_kind kind)
{
	return (unsigned)kind < GPUSIM_NFAULTS ? kinds[kind] : "unknown";
}

void
fault_help(FILE *f)
{
	fputs("faults:\n", f);
	for (int k = 0; k < GPUSIM_NFAULTS; k++)
		fprintf(f, "  %-7s %-33s %s\n", kinds[k], about[k].takes, about[k].help);
	fputs(
	    "target: rank=RANK (with --comm ID, or the only communicator), device=DEVICE, "
	    "coordinator\n"
	    "at=now (the default), or at=COLLECTIVE#NUMBER[.stepK]; COLLECTIVE may be any, send or "
	    "recv,\nNUMBER may be next\n",
	    f);
}

bool
fault_kind_parse(const char *word, struct gpusim_fault *out)
{
	for (int k = 0; k < GPUSIM_NFAULTS; k++)
		if (strcmp(word, kinds[k]) == 0) {
			*out = (struct gpusim_fault){.kind = (enum gpusim_fault_kind)k, .coll = -1};
			return true;
		}
	return false;
}

/* The digits, or next, between '#' and the step. */
static enum rc
parse_operation(struct gpusim_fault *f, const char *text, struct err *err)
{
	f->next = strcmp(text, "next") == 0;
	f->seq = 0;
	return f->next ? RC_OK : parse_u64(text, 0, UINT64_MAX, &f->seq, err);
}

static enum rc
parse_point(struct gpusim_fault *f, const char *text, struct err *err)
{
	char word[64], *hash, *step;
	enum gpusim_coll coll;
	uint64_t n = 0;
	enum rc rc = RC_OK;

	f->at = strcmp(text, "now") != 0;
	if (!f->at)
		return RC_OK;
	if (strlen(text) >= sizeof word)
		return err_set(err, RC_INVAL, "'%.64s' is not a point", text);
	strcpy(word, text);
	hash = strchr(word, '#');
	if (!hash)
		return err_set(err, RC_INVAL,
			       "'%.64s' is not a point: now, or such as allreduce#7.step3", text);
	*hash++ = '\0';
	step = strstr(hash, END);
	if (step && strcmp(step, END) == 0) {
		*step = '\0';
		n = FAULT_AT_END;
	} else if ((step = strstr(hash, STEP))) {
		*step = '\0';
		rc = parse_u64(step + strlen(STEP), 1, PLAN_MAX_STEPS, &n, err);
	}
	f->step = (uint32_t)n;
	if (rc == RC_OK && strcmp(word, "any") == 0)
		f->coll = -1;
	else if (rc == RC_OK && (rc = coll_parse(word, &coll, err)) == RC_OK)
		f->coll = (int)coll;
	return rc == RC_OK ? parse_operation(f, hash, err) : rc;
}

/* The value of KEY=VALUE, or NULL. */
static const char *
value_of(const char *word, const char *key)
{
	size_t n = strlen(key);

	return strncmp(word, key, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

enum rc
fault_word(struct gpusim_fault *f, const char *word, struct err *err)
{
	uint64_t peer;
	const char *v;
	enum rc rc;

	if ((v = value_of(word, "at")))
		rc = parse_point(f, v, err);
	else if ((v = value_of(word, "for")))
		rc = parse_duration(v, &f->for_ns, err);
	else if ((v = value_of(word, "by")))
		rc = parse_duration(v, &f->by_ns, err);
	else if ((v = value_of(word, "count")) || (v = value_of(word, "n")))
		rc = parse_u64(v, 1, UINT64_MAX, &f->count, err);
	else if ((v = value_of(word, "p")))
		rc = parse_double(v, 1e-9, 1, &f->p, err);
	else if ((v = value_of(word, "seed")))
		rc = parse_u64(v, 0, UINT64_MAX, &f->seed, err);
	else if ((v = value_of(word, "peer"))) {
		rc = parse_u64(v, 0, UINT32_MAX, &peer, err);
		if (rc == RC_OK) {
			f->to_peer = 1;
			f->peer = (uint32_t)peer;
		}
	} else
		return RC_NOTFOUND;
	return rc == RC_OK ? rc : err_prefix(err, "%.*s", (int)(v - word - 1), word);
}

/* "allreduce#7.step3", "send#next", "now". */
static void
fault_show_point(const struct gpusim_fault *f, char *out, size_t n)
{
	char op[32] = "next", step[32] = "";

	if (!f->at) {
		snprintf(out, n, "now");
		return;
	}
	if (!f->next)
		snprintf(op, sizeof op, "%llu", (unsigned long long)f->seq);
	if (f->step == FAULT_AT_END)
		snprintf(step, sizeof step, END);
	else if (f->step)
		snprintf(step, sizeof step, STEP "%u", f->step);
	snprintf(out, n, "%s#%s%s", f->coll < 0 ? "any" : coll_name((enum gpusim_coll)f->coll), op,
		 step);
}

/* Append " KEY=TEXT", truncated to the buffer. */
__attribute__((format(printf, 3, 4))) static void
add(char *out, size_t n, const char *fmt, ...)
{
	size_t len = strlen(out);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out + len, n - len, fmt, ap);
	va_end(ap);
}

void
fault_show(const struct gpusim_fault *f, char *out, size_t n)
{
	char point[96];

	fault_show_point(f, point, sizeof point);
	snprintf(out, n, "%s at=%s", fault_name(f->kind), point);
	if (f->for_ns)
		add(out, n, " for=%.9gms", (double)f->for_ns / 1e6);
	if (f->by_ns)
		add(out, n, " by=%.9gms", (double)f->by_ns / 1e6);
	if (f->p != 0)
		add(out, n, " p=%g", f->p);
	if (f->count)
		add(out, n, " n=%llu", (unsigned long long)f->count);
	if (f->seed)
		add(out, n, " seed=%llu", (unsigned long long)f->seed);
	if (f->to_peer)
		add(out, n, " peer=%u", f->peer);
}

static bool
is_of_frames(const struct gpusim_fault *f)
{
	return f->kind == GPUSIM_FAULT_DROP || f->kind == GPUSIM_FAULT_CORRUPT;
}

/* Check that the kind accepts the keys that are set, besides its point. */
static enum rc
check_kind(const struct gpusim_fault *f, struct err *err)
{
	enum gpusim_fault_kind k = f->kind;
	bool frames = is_of_frames(f);

	if (f->for_ns && k != GPUSIM_FAULT_STOP && k != GPUSIM_FAULT_SLOW && k != GPUSIM_FAULT_CUT)
		return err_set(err, RC_INVAL, "%s does not accept for=", fault_name(k));
	if (k == GPUSIM_FAULT_SLOW ? !f->by_ns : f->by_ns != 0)
		return err_set(err, RC_INVAL,
			       f->by_ns ? "%s does not accept by=" : "%s needs by=", fault_name(k));
	if (f->count && !frames && k != GPUSIM_FAULT_SLOW)
		return err_set(err, RC_INVAL, "%s does not accept count=", fault_name(k));
	if (f->p != 0 && !frames)
		return err_set(err, RC_INVAL, "%s does not accept p=", fault_name(k));
	if (f->to_peer && !frames && k != GPUSIM_FAULT_CUT)
		return err_set(err, RC_INVAL, "%s does not accept peer=", fault_name(k));
	return RC_OK;
}

enum rc
fault_check(const struct gpusim_fault *f, struct err *err)
{
	if ((unsigned)f->kind >= GPUSIM_NFAULTS)
		return err_set(err, RC_INVAL, "unknown fault kind %d", (int)f->kind);
	if (f->coll < -1 || f->coll >= GPUSIM_NCOLLS)
		return err_set(err, RC_INVAL, "unknown collective %d", f->coll);
	if (!(f->p >= 0 && f->p <= 1))
		return err_set(err, RC_INVAL, "p=%g: must be a probability, 0 to 1", f->p);
	if (f->by_ns > FAULT_BY_MAX_NS)
		return err_set(err, RC_INVAL, "by=: must be at most %llus",
			       FAULT_BY_MAX_NS / 1000000000);
	if (f->for_ns > FAULT_FOR_MAX_NS)
		return err_set(err, RC_INVAL, "for=: must be at most 1 hour");
	if (f->kind == GPUSIM_FAULT_FLIP && !f->at)
		return err_set(err, RC_INVAL, "flip needs at=, such as at=allreduce#next");
	if (f->kind != GPUSIM_FAULT_FLIP && f->at && f->step == FAULT_AT_END)
		return err_set(err, RC_INVAL, "%s happens before a step, not at the end",
			       fault_name(f->kind));
	return check_kind(f, err);
}

enum rc
fault_complete(struct gpusim_fault *f, struct err *err)
{
	if (is_of_frames(f) && !f->count && f->p == 0)
		f->count = 1;
	return fault_check(f, err);
}
