/* Inputs of libnccl: configurations, ids, NCCL_ALGO. */
#include <string.h>

#include "nccl/algos.h"
#include "nccl/config.h"
#include "nccl/id.h"
#include "tap.h"

static void
test_deterministic(void)
{
	ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
	const struct nccl_config parent = {.deterministic = true};
	struct nccl_config out;
	struct err err = {0};

	ok(nccl_config_take(&c, NULL, NULL, &out, &err) == RC_OK && !out.deterministic,
	   "not deterministic");
	ok(nccl_config_take(&c, &parent, NULL, &out, &err) == RC_OK && out.deterministic,
	   "as its parent");
	c.deterministic = 0;
	ok(nccl_config_take(&c, &parent, NULL, &out, &err) == RC_OK && !out.deterministic,
	   "or not");
	c.deterministic = 1;
	ok(nccl_config_take(&c, NULL, NULL, &out, &err) == RC_OK && out.deterministic,
	   "deterministic");
	c.size = offsetof(ncclConfig_t, deterministic);
	ok(nccl_config_take(&c, NULL, NULL, &out, &err) == RC_OK && !out.deterministic,
	   "NVIDIA's header of our version ends before it");
	c.size = sizeof c;
	c.deterministic = 2;
	ok(nccl_config_take(&c, NULL, NULL, &out, &err) == RC_INVAL &&
	       !strcmp(err.text, "Invalid config deterministic attribute value 2"),
	   "%s", err.text);
}

static void
test_config(void)
{
	ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
	const struct nccl_config parent = {.blocking = false, .name = "parent"};
	struct nccl_config out;
	struct err err = {0};
	struct {
		ncclConfig_t ours;
		int later[16];
	} larger = {.ours = NCCL_CONFIG_INITIALIZER, .later = {7, 8}};

	ok(nccl_config_take(NULL, NULL, NULL, &out, &err) == RC_OK && out.blocking && !*out.name,
	   "nothing said: blocking");
	ok(nccl_config_take(&c, &parent, NULL, &out, &err) == RC_OK && !out.blocking &&
	       !strcmp(out.name, "parent"),
	   "undefined fields are the parent's");
	c.blocking = 0;
	c.commName = "a name";
	ok(nccl_config_take(&c, NULL, NULL, &out, &err) == RC_OK && !out.blocking &&
	       !strcmp(out.name, "a name"),
	   "defined ones count");
	ok(nccl_config_take(&c, NULL, "1", &out, &err) == RC_OK && out.blocking,
	   "NCCL_COMM_BLOCKING wins");
	ok(nccl_config_take(&c, NULL, "yes", &out, &err) == RC_INVAL, "%s", err.text);
	c.size = offsetof(ncclConfig_t, minCTAs);
	c.minCTAs = -5;
	ok(nccl_config_take(&c, NULL, NULL, &out, &err) == RC_OK && !out.blocking,
	   "of an older header the first fields count");
	c.size = sizeof c;
	ok(nccl_config_take(&c, NULL, NULL, &out, &err) == RC_INVAL &&
	       !strcmp(err.text, "Invalid config minCTAs attribute value -5"),
	   "%s", err.text);
	larger.ours.size = sizeof larger;
	larger.ours.blocking = 0;
	ok(nccl_config_take(&larger.ours, NULL, NULL, &out, &err) == RC_OK && !out.blocking,
	   "of a newer header, too");
	larger.ours.version = 22900;
	larger.ours.deterministic = 32;
	ok(nccl_config_take(&larger.ours, NULL, NULL, &out, &err) == RC_OK && !out.deterministic,
	   "what NVIDIA's later headers have where ours has `deterministic` is not that");
	memset(&c, 0, sizeof c);
	ok(nccl_config_take(&c, NULL, NULL, &out, &err) == RC_INVAL &&
	       strstr(err.text, "not initialized via NCCL_CONFIG_INITIALIZER"),
	   "%s", err.text);
}

static void
test_ids(void)
{
	struct gpusim_unique_id id = {"0123456789abcdef0123456789abcdef"}, back, both[2], joined;
	char address[NCCL_ID_ROOM], longer[200];
	struct err err = {0};
	ncclUniqueId out;

	nccl_id_make(&id, "ipc:///tmp/a/gpucoord.sock", &out);
	ok(nccl_id_read(&out, &back, address, &err) == RC_OK && !strcmp(back.text, id.text) &&
	       !strcmp(address, "ipc:///tmp/a/gpucoord.sock"),
	   "an id carries the coordinator's address");
	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	nccl_id_make(&id, longer, &out);
	ok(nccl_id_read(&out, &back, address, &err) == RC_OK && !*address,
	   "a long address is left out");
	memset(&out, 0, sizeof out);
	ok(nccl_id_read(&out, &back, address, &err) == RC_INVAL, "%s", err.text);
	memset(&out, 'a', sizeof out);
	ok(nccl_id_read(&out, &back, address, &err) == RC_INVAL, "%s", err.text);
	both[0] = id;
	both[1] = (struct gpusim_unique_id){"ffffffffffffffffffffffffffffffff"};
	nccl_id_join(both, 1, &joined);
	ok(!strcmp(joined.text, id.text), "one id is itself");
	nccl_id_join(both, 2, &joined);
	ok(strcmp(joined.text, id.text) && strspn(joined.text, "0123456789abcdef") == 32,
	   "two are another: %s", joined.text);
}

static void
test_algos(void)
{
	static const struct {
		const char *in, *out;
		bool gone;
	} cases[] = {
	    {"Ring", "ring", false},
	    {"Ring,Tree", "ring,tree", false},
	    {"^NVLS,NVLSTree", "", false},
	    {"^NVLS,Tree", "^tree", false},
	    {"CollnetDirect", "", true},
	    {"allreduce:Tree,NVLS;broadcast:ring", "allreduce:tree;broadcast:ring", false},
	    {"allreduce:PAT;ring", "ring", true},
	    {"", "", false},
	    {";;", "", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf b = {0};
		bool gone, msccl, good = nccl_algo_text(cases[i].in, &b, &gone, &msccl);

		ok(good && gone == cases[i].gone && b.data && !strcmp(b.data, cases[i].out),
		   "NCCL_ALGO=%s: '%s'", cases[i].in, good && b.data ? b.data : "");
		buf_fini(&b);
	}
}

int
main(void)
{
	test_config();
	test_deterministic();
	test_ids();
	test_algos();
	return tap_done();
}
