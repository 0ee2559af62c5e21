/* Chaos, as a C program has it; its options and reports are in tests/bats/inject.bats. */
#include "chaos/chaos_impl.h"

#include <string.h>

#include "programs.h"
#include "tap.h"

/* A number's operation and fault depend on the seed and nothing else. */
static void
draws(void)
{
	struct chaos_op a, b;
	struct chaos_fault f, g;
	char first[GPUSIM_TEXT], again[GPUSIM_TEXT];
	unsigned differ = 0, good = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		chaos_draw_op(7, i, 4, true, &a);
		chaos_draw_op(7, i, 4, true, &b);
		chaos_show_op(&a, first, sizeof first);
		chaos_show_op(&b, again, sizeof again);
		differ += strcmp(first, again) != 0;
		chaos_draw_op(8, i, 4, true, &b);
		good += a.seed != b.seed && a.nelem * 8 <= 8 * CHAOS_BYTES && a.root < 4;
		chaos_draw_fault(7, i, 1u << GPUSIM_FAULT_STOP, false, &f);
		chaos_draw_fault(7, i, 1u << GPUSIM_FAULT_STOP, false, &g);
		chaos_show_fault(&f, first, sizeof first);
		chaos_show_fault(&g, again, sizeof again);
		differ += strcmp(first, again) != 0 || f.f.kind != GPUSIM_FAULT_STOP;
	}
	ok(differ == 0, "a seed draws the same again, of the kinds asked for");
	ok(good == 1000, "another seed draws other elements; all have room");
}

/* A wrong element is seen. */
static void
checks(void)
{
	static unsigned char out[CHAOS_BYTES];
	struct chaos_op o = {.seed = 3,
			     .coll = GPUSIM_BROADCAST,
			     .dtype = GPUSIM_I32,
			     .nelem = 100,
			     .nranks = 2,
			     .root = 1};
	const uint32_t took[] = {0, 1};

	chaos_fill(&o, 1, out, o.nelem);
	ok(chaos_check(&o, took, 2, 0, out), "what the root has is right everywhere");
	out[399] ^= 1;
	ok(!chaos_check(&o, took, 2, 0, out), "a single wrong bit is not");
}

struct told {
	unsigned n[CHAOS_ALARM + 1];
};

static void
count(void *arg, enum chaos_event event, const char *sentence)
{
	struct told *t = arg;

	t->n[event] += *sentence != '\0';
}

static void
refused(const char *what, uint32_t nranks, unsigned kinds, enum rc want)
{
	struct chaos_config cfg = {.nranks = nranks, .kinds = kinds};
	struct chaos_report r;
	struct err err = {0};

	ok(chaos_run(&cfg, &r, &err) == want && err.text[0], "%s: %s", what, err.text);
	chaos_report_fini(&r);
}

int
main(void)
{
	static const char *const inject[] = {"--allow-inject"};
	struct launch_config two = two_devices();
	struct told told = {0};
	struct chaos_config cfg = {.comm = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE},
				   .nranks = 2,
				   .kinds = 1u << GPUSIM_FAULT_SLOW | 1u << GPUSIM_FAULT_DROP,
				   .seed = 1,
				   .nops = 10,
				   .rate = 1,
				   .rate_by_op = true,
				   .bound_ms = 60000,
				   .say = count,
				   .arg = &told};
	struct chaos_report r = {0};
	struct err err = {0};
	struct launch *l;
	enum rc rc;

	draws();
	checks();
	refused("one rank", 1, 1, RC_FAILED);
	refused("too many ranks", CHAOS_MAX_RANKS + 1, 1, RC_INVAL);
	refused("no kind", 2, 0, RC_INVAL);
	two.dev_args = two.coord_args = inject;
	two.ndev_args = two.ncoord_args = 1;
	l = start(&two, &cfg.g);
	if (gpusim_open(launch_coordinator(l), &cfg.side) != GPUSIM_OK)
		tap_bail(gpusim_error());
	rc = chaos_run(&cfg, &r, &err);
	ok(rc == RC_OK && r.ops == 10 && r.wrong == 0 && r.stuck == 0 && r.good + r.failed == 10,
	   "ten operations %s", err.text);
	ok(told.n[CHAOS_OPERATION] == 10 && told.n[CHAOS_FAULT] > 0 && told.n[CHAOS_ALARM] == 0,
	   "each was reported, and %u faults", told.n[CHAOS_FAULT]);
	ok(r.ndaemons == 3 && r.daemons[0].device.id == 0 && r.daemons[1].before.pid > 0 &&
	       r.daemons[1].after.pid == r.daemons[1].before.pid,
	   "three daemons were looked at, before and after");
	chaos_report_fini(&r);
	gpusim_close(cfg.side);
	gpusim_close(cfg.g);
	launch_end(l);
	return tap_done();
}
