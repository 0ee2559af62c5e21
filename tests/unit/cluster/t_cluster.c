/* Clusters from files: words, constants, and what is refused. */
#include <math.h>
#include <string.h>

#include "cluster/cluster.h"
#include "tap.h"

static struct cluster c;
static struct err err;

static enum rc
take(const char *text)
{
	err = (struct err){0};
	return cluster_read(text, "f.ini", &c, &err);
}

static void
refused(const char *text, const char *want)
{
	enum rc rc = take(text);

	if (!ok(rc == RC_INVAL && strstr(err.text, want), "refused: %s", want))
		printf("# %d %s\n", rc, err.text);
}

static bool
near(double a, double b)
{
	return fabs(a - b) < 1e-9 * fabs(b) + 1e-12;
}

static void
test_words(void)
{
	ok(take("gpu = h100\nhosts = 4\nnics = 8 x 400 Gb/s ib\n") == RC_OK, "words alone: %s",
	   err.text);
	ok(c.gpus_per_host == 8 && c.domain == 8 && c.inside == CLUSTER_NVSWITCH && c.nvls == 1,
	   "a GPU's usual host");
	ok(near(c.inside_gbs, 450) && near(c.pcie_gbs, 64) && near(c.nic_gbs, 50) && c.nics == 8,
	   "rates");
	ok(near(cluster_host_gbs(&c), 400) && cluster_gpus(&c) == 32, "facts");
	ok(take("gpu=gb200\nhosts=18\nnics = 4x400Gb/s\nnetwork=roce") == RC_OK && c.domain == 72,
	   "a rack is one domain");
	ok(take("[hosts]\ngpu = a100\npcie = gen3 x8\ninside = pcie\nnetwork simple latency = 3us\n"
		"nics = 1 x 25Gb/s tcp") == RC_OK &&
	       near(c.pcie_gbs, 8) && near(c.inside_gbs, 8) && c.nvls == 0 &&
	       near(c.out[CLUSTER_SIMPLE].us, 3) && !c.gpudirect,
	   "constants of one's own: %s", err.text);
}

/* What a step of a training needs to know of a GPU. */
static void
test_gpu(void)
{
	ok(take("gpu = a100") == RC_OK && near(c.tflops, 312) && near(c.memory_gb, 40) &&
	       near(c.memory_gbs, 1555) && near(c.copy_gbs, 777.5),
	   "a data sheet");
	ok(take("gpu=a100\nmemory=80 GiB\nmemory bandwidth=2.1TB/s\ncompute=0.5PFLOP/s\nmatrix "
		"share=0.5") == RC_OK &&
	       near(c.memory_gb, 85.89934592) && near(c.memory_gbs, 2100) &&
	       near(c.reduce_gbs, 700) && near(c.tflops, 500) && c.matrix_share == 0.5,
	   "another one: %s", err.text);
}

static void
test_strided(void)
{
	struct cluster s;

	take("gpu = a100\nhosts = 12\nnics = 8 x 200Gb/s ib\nleaf hosts = 4\n");
	s = cluster_strided(&c, 2);
	ok(s.gpus_per_host == 4 && s.domain == 4 && s.hosts == 12 && s.nics == 4 &&
	       near(s.nic_gbs, 25),
	   "every second GPU: half of the NICs");
	s = cluster_strided(&c, 16);
	ok(s.gpus_per_host == 1 && s.domain == 1 && s.hosts == 6 && s.nics == 1 &&
	       near(s.nic_gbs, 25) && s.level[0].hosts == 2,
	   "one of every second host");
	s = cluster_strided(&c, 24 * 3);
	ok(s.hosts == 2, "two of twelve hosts, nine apart");
	s = cluster_strided(&c, 3);
	ok(s.gpus_per_host == 3 && s.domain == 3 && s.hosts == 12, "three of eight");
	take("gpu = a100\nhosts = 2\nnics = 1 x 200Gb/s ib\n");
	s = cluster_strided(&c, 4);
	ok(s.gpus_per_host == 2 && s.nics == 1 && near(s.nic_gbs, 6.25),
	   "a quarter of the only NIC");
}

static void
test_refused(void)
{
	refused("gpu = h100\ncompute = 312\n", "is not a rate of computing");
	refused("gpu = h100\nmemory = 80\n", "is not a memory's size");
	refused("gpu = h100\nmemory = 0GB\n", "is not a memory's size");
	refused("gpu = h100\nmatrix share = 0\n", "matrix share: must not be 0");
	refused("hosts = 2\nnics = 1 x 1Gb/s\n", "f.ini: gpu is missing");
	refused("gpu = h1000\n", "f.ini:1: gpu: 'h1000': must be one of");
	refused("gpu = h100\nnick = 3\n", "did you mean 'nics'?");
	refused("gpu = h100\nnics = 8\n", "'8' is not");
	refused("gpu = h100\nnics = 8 x 400Gb/s ib junk\n", "text after the network");
	refused("gpu = h100\nnics = 8 x 400Gb/s token-ring\n", "must be one of ib, ");
	refused("gpu = h100\nnics = 65 x 400Gb/s\n", "out of range");
	refused("gpu = h100\ninside bandwidth = 450\n", "is not a rate");
	refused("gpu = h100\nlaunch = 3\n", "is not a time");
	refused("gpu = h100\nhosts = 2\n", "need a network");
	refused("gpu = h100\ndomain = 3\n", "must divide the GPUs");
	refused("gpu = h100\nhosts=2\nhosts=3\n", "already given in line 2");
	refused("gpu = h100\nhosts=65536\ngpus per host=1024\nnics=1 x 1Gb/s\n", "more than");
	refused("gpu = h100\nhosts = 8\nnics = 1 x 1Gb/s\nleaf hosts = 4\nspine hosts = 6\n",
		"must be a multiple of those");
	refused("gpu = h100\nspine hosts = 6\n", "need the level below");
	refused("gpu = h100\ninside simple share = 0\n", "Simple carries all sizes");
}

static void
test_print(void)
{
	struct cluster before;
	struct buf text = {0};

	take("name = mine\ngpu = gh200\nhosts = 3\nnics = 4 x 200Gb/s slingshot\nleaf hosts = 2\n"
	     "network simple latency = 12.25us\nnvls = no\n");
	before = c;
	ok(cluster_print(&c, &text, &err) == RC_OK && buf_add(&text, "", 1) &&
	       take(text.data) == RC_OK,
	   "what is printed can be read: %s", err.text);
	ok(strcmp(before.name, c.name) == 0 && before.gpu == c.gpu && before.hosts == c.hosts &&
	       before.nics == c.nics && before.nic_gbs == c.nic_gbs &&
	       before.network == c.network && before.level[0].hosts == c.level[0].hosts &&
	       memcmp(before.in, c.in, sizeof c.in) == 0 &&
	       memcmp(before.out, c.out, sizeof c.out) == 0 && before.launch_us == c.launch_us &&
	       before.inside_gbs == c.inside_gbs && before.nvls == c.nvls &&
	       before.nvls_share == c.nvls_share,
	   "and means the same");
	buf_fini(&text);
}

int
main(void)
{
	test_words();
	test_gpu();
	test_strided();
	test_refused();
	test_print();
	return tap_done();
}
