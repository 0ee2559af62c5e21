/* t_digest.c - the digest of simulated worlds sees ids and codes, and no texts or addresses. */
#include "../sim/digest.h"

#include "gpu_sim.pb-c.h"
#include "tap.h"

static uint64_t
digest_of(const ProtobufCMessage *m)
{
	struct digest d = {1};

	digest_message(&d, m);
	return d.h;
}

static void
order_counts(void)
{
	struct digest a = {1}, b = {1}, c = {2};

	digest_add(&a, 5);
	digest_add(&a, 6);
	digest_add(&b, 6);
	digest_add(&b, 5);
	ok(a.h != b.h, "two numbers in another order give another digest");
	digest_add(&c, 5);
	digest_add(&c, 6);
	ok(a.h != c.h, "and so does another seed");
}

static void
messages(void)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__CommInitResponse init = GPU_SIM__COMM_INIT_RESPONSE__INIT;
	uint64_t was = digest_of(&reply.base);
	char sentence[] = "a sentence";

	reply.message = sentence;
	ok(digest_of(&reply.base) == was, "a text is not seen");
	reply.code = 3;
	ok(digest_of(&reply.base) != was, "a code is");
	was = digest_of(&reply.base);
	reply.body_case = GPU_SIM__REPLY__BODY_COMM_INIT;
	reply.comminit = &init;
	ok(digest_of(&reply.base) != was, "an empty body is another answer than none");
	was = digest_of(&reply.base);
	init.commid = 7;
	ok(digest_of(&reply.base) != was, "an id in the body is seen");
}

static void
lists(void)
{
	GpuSim__Failure f = GPU_SIM__FAILURE__INIT;
	uint32_t one[] = {1, 0}, other[] = {0, 1};
	uint64_t was;

	f.missing = one;
	f.n_missing = 2;
	was = digest_of(&f.base);
	f.missing = other;
	ok(digest_of(&f.base) != was, "the order of a list is seen");
	f.missing = one;
	f.n_missing = 1;
	ok(digest_of(&f.base) != was, "and its length, though a 0 is what is missing");
	f.n_missing = 2;
	f.missing = (uint32_t[]){1, 0};
	ok(digest_of(&f.base) == was, "where it is in memory is not");
}

int
main(void)
{
	order_counts();
	messages();
	lists();
	return tap_done();
}
