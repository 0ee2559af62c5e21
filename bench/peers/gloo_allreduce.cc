/*
 * gloo_allreduce NRANKS ALGORITHM MODE SIZE[:MOST] ... - measure gloo over TCP on the loopback as in
 * measure.h; it starts its ranks itself.
 *
 *	ALGORITHM	new, new_ring, new_bcube: gloo::allreduce, out of place;
 *			ring, ring_chunked, halving_doubling, bcube: the classes of that name, which
 *			work in place only and are timed without a copy
 *	MODE		async, sync (calls wait in recv), poll (calls read without waiting): the
 *			classes only, gloo::allreduce has only async
 */
#include <dirent.h>

#include <cstring>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "measure.h"
#include "ranks.h"

namespace
{

struct peer {
	struct ranks *ranks;
	std::string name;
	std::shared_ptr<gloo::Context> context;
	std::unique_ptr<gloo::Algorithm> algorithm; /* of this size; none for gloo::allreduce */
	std::unique_ptr<gloo::AllreduceOptions> options;
};

peer *
of(struct measure *m)
{
	return static_cast<peer *>(m->arg);
}

void
prepare(struct measure *m, float *in, float *out, size_t count)
{
	peer *p = of(m);
	const std::vector<float *> v{out};
	const int n = static_cast<int>(count);

	if (p->name == "ring") {
		p->algorithm.reset(new gloo::AllreduceRing<float>(p->context, v, n));
	} else if (p->name == "ring_chunked") {
		p->algorithm.reset(new gloo::AllreduceRingChunked<float>(p->context, v, n));
	} else if (p->name == "halving_doubling") {
		p->algorithm.reset(new gloo::AllreduceHalvingDoubling<float>(p->context, v, n));
	} else if (p->name == "bcube") {
		p->algorithm.reset(new gloo::AllreduceBcube<float>(p->context, v, n));
	} else {
		using options = gloo::AllreduceOptions;

		p->options.reset(new options(p->context));
		p->options->setAlgorithm(p->name == "new_ring" ? options::Algorithm::RING
					 : p->name == "new_bcube"
					     ? options::Algorithm::BCUBE
					     : options::Algorithm::UNSPECIFIED);
		p->options->setInput(in, count);
		p->options->setOutput(out, count);
		p->options->setReduceFunction(
		    static_cast<void (*)(void *, const void *, const void *, size_t)>(
			&gloo::sum<float>));
	}
}

void
allreduce(struct measure *m, float *, float *, size_t)
{
	peer *p = of(m);

	if (p->algorithm)
		p->algorithm->run();
	else
		gloo::allreduce(*p->options);
}

void
barrier(struct measure *m)
{
	ranks_barrier(of(m)->ranks);
}

double
max(struct measure *m, double mine)
{
	return ranks_max(of(m)->ranks, m->rank, mine);
}

/* Remove the folder of plain files where ranks met. */
void
remove_folder(const std::string &path)
{
	DIR *d = opendir(path.c_str());

	for (struct dirent *e; d && (e = readdir(d));)
		unlink((path + "/" + e->d_name).c_str());
	if (d)
		closedir(d);
	rmdir(path.c_str());
}

/* Ranks find each other through files in `meet`. */
std::shared_ptr<gloo::Context>
connect(int rank, int nranks, const std::string &meet, const std::string &mode)
{
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, nranks);
	gloo::rendezvous::FileStore store(meet);
	gloo::transport::tcp::attr attr("127.0.0.1");
	auto device = gloo::transport::tcp::CreateDevice(attr);

	context->connectFullMesh(store, device);
	for (int r = 0; r < nranks; r++)
		if (r != rank && mode != "async")
			context->getPair(r)->setSync(true, mode == "poll");
	return context;
}

} // namespace

int
main(int argc, char **argv)
{
	const char *const names[] = {"new",   "new_ring",     "new_bcube",	 "ring",
				     "bcube", "ring_chunked", "halving_doubling"};
	const char *tmp = getenv("TMPDIR");
	std::string meet = std::string(tmp ? tmp : "/tmp") + "/gloo.XXXXXX";
	struct measure m = {};
	peer p;
	bool known = false;
	int status = 2;

	for (const char *name : names)
		known = known || (argc > 2 && !strcmp(argv[2], name));
	if (argc < 5 || !known) {
		fprintf(stderr, "usage: gloo_allreduce NRANKS ALGORITHM async|sync|poll SIZE...\n");
		return 2;
	}
	p.name = argv[2];
	m.nranks = atoi(argv[1]);
	m.in_place = p.name.compare(0, 3, "new") != 0;
	p.ranks = ranks_new(m.nranks);
	if (!mkdtemp(&meet[0])) {
		perror("gloo_allreduce: mkdtemp");
		return 2;
	}
	m.rank = ranks_fork(m.nranks, &status);
	if (m.rank < 0) {
		remove_folder(meet);
		return status;
	}
	m.prepare = prepare;
	m.allreduce = allreduce;
	m.barrier = barrier;
	m.max = max;
	m.arg = &p;
	try {
		p.context = connect(m.rank, m.nranks, meet, argv[3]);
		status = measure_args(&m, argc - 4, argv + 4);
	} catch (const std::exception &e) {
		fprintf(stderr, "gloo_allreduce: rank %d: %s\n", m.rank, e.what());
	}
	fflush(stdout);
	_exit(status); /* its threads may still wait for peers that have ended */
}
