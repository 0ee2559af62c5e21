/*
 * tune.h - which algorithm, and in which messages, when the caller leaves it open. Pure.
 *
 * The first of these that says something decides: the call's own algorithm; the first algorithm of a file that
 * GPUSIM_ALGO lists (struct tune_select) and that fits; the first line of a tuner file that fits (struct
 * tune_rule); the model (cost.h). GPUSIM_ALGO also narrows the choice of the tuner file and the model, unless the
 * transport can do none of the rest.
 */
#ifndef COLL_TUNE_H
#define COLL_TUNE_H

#include "base/buf.h"
#include "coll/cost.h"

#define TUNE_CHUNK_BYTES       262144	  /* largest message when nothing is said */
#define TUNE_LARGE_BYTES       (2u << 20) /* vectors of more than this go through sockets in */
#define TUNE_LARGE_CHUNK_BYTES 98304
#define TUNE_MIN_CHUNK_BYTES   16384 /* the smallest that the model considers */
#define TUNE_MAX_RULES	       65536

/* How a communicator's ranks reach each other. */
enum tune_transport {
	TUNE_NET, /* messages through sockets */
	TUNE_P2P, /* every rank has mapped every other's memory */
	TUNE_NTRANSPORTS,
};

#define TUNE_FILE_NAME 64 /* bytes of its name with the NUL */
#define TUNE_MAX_FILES 8  /* that GPUSIM_ALGO names for one collective */

/* An algorithm of a file, which calls, rules and GPUSIM_ALGO may name beside those that are built in. */
struct tune_file {
	char name[TUNE_FILE_NAME];
	enum gpusim_coll coll;
	uint32_t nranks, root; /* it is for so many ranks, and this root where there is one */
	uint64_t min_bytes, max_bytes; /* of the whole vector; max 0: no bound */
	void *of;		       /* the caller's */
};

struct tune_files {
	struct tune_file *v;
	size_t n;
};

/* One line of a tuner file. */
struct tune_rule {
	enum gpusim_coll coll;
	uint64_t min_bytes, max_bytes; /* of the whole vector, both included */
	const struct plan_algo *algo;  /* plan_algo_file: the one that `file` names */
	char *file;
	int transport;	 /* enum tune_transport; -1: any */
	uint32_t nranks; /* 0: any */
};

/* GPUSIM_ALGO's part about one collective. */
struct tune_select {
	uint64_t allowed; /* bit i: row i of plan_algos */
	bool named;	  /* the allowed ones were listed, so the slow ones count too */
	unsigned nfiles;  /* algorithms of files that were listed: the first that fits is taken */
	char file[TUNE_MAX_FILES][TUNE_FILE_NAME];
};

/* Initialise with tuner_init; tuner_fini releases. */
struct tuner {
	struct cost_model model[TUNE_NTRANSPORTS];
	bool measured[TUNE_NTRANSPORTS]; /* a tuner file has told the costs, shaped links and all */
	struct tune_select select[GPUSIM_NCOLLS];
	struct tune_rule *rule;
	size_t nrules;
	bool
	    takes_files; /* names that are not built in may be those of files: see tuner_check_files */
};

/* Built-in costs, every algorithm allowed, no rules. */
void tuner_init(struct tuner *t);
void tuner_fini(struct tuner *t);

/* What messages cost between ranks whose links are shaped so: what a tuner file says, else the tuner's costs and the shape
 * on top. Memory has no links. */
struct cost_model tuner_model(const struct tuner *t, enum tune_transport by,
			      const struct link_shape *links);

/*
 * tuner_select - take in GPUSIM_ALGO, which is spelled as NCCL_ALGO is.
 *
 * Lists with ';' between: "[COLLECTIVE:][^]ALGO[,ALGO...]". A list names what is allowed, with ^
 * what is not; without a collective it is for all that have one of its algorithms. A later list of
 * a collective replaces an earlier one. "" changes nothing. RC_INVAL quotes the word: no such
 * collective or algorithm, or nothing is left; *t is then as it was.
 */
enum rc tuner_select(struct tuner *t, const char *text, struct err *err);

/*
 * tuner_rules - take in a tuner file's text, with the columns of NCCL's tuner plugin:
 *
 *	collType,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
 *
 * Columns after the algorithm may be left out at the end; -1 is any. protocol is net or p2p; NCCL's ll, ll128
 * and simple are any. A line of an algorithm that only GPUs have (nvls, pat ...) fits nothing.
 * channels, numPipeOps and regBuff mean nothing here, and a line for a number of nodes other than
 * 1 and -1 fits nothing. Lines that begin with # and blank ones are skipped. A line of costs,
 *
 *	cost,net,alpha_us=5008,host_us=16,beta_ns=9,gamma_ns=0.04
 *
 * is of net or p2p; a cost that it leaves out stays as it was. RC_BADDATA
 * "NAME:LINE: reason", RC_NOMEM; *t is then as it was.
 */
enum rc tuner_rules(struct tuner *t, const char *text, const char *name, struct err *err);

/*
 * tuner_check_files - that every name which is not built in is one of `files`, of its collective.
 *
 * With takes_files, tuner_select and tuner_rules take any name that algorithms of files can have. RC_INVAL quotes the
 * first that there is not.
 */
enum rc tuner_check_files(const struct tuner *t, const struct tune_files *files, struct err *err);
/* Whether it can be the name of an algorithm of a file: letters, digits, . _ - ; it begins with a letter or digit. */
bool tune_is_name(const char *text);
/* Whether a list or a rule names the algorithm of a file. */
bool tuner_names_file(const struct tuner *t, const char *name);

/* Both: the value of GPUSIM_ALGO, then the tuner file at a path. NULL or "": none. Errors as theirs, and of file_text. */
enum rc tuner_configure(struct tuner *t, const char *algo, const char *path, struct err *err);

/*
 * Texts of what differs from a plain tuner, appended to *out: for tuner_select, and for tuner_rules as far as
 * the rules concern nranks ranks; links: of those ranks. A plain tuner that takes them in answers all that nranks ranks ask
 * as *t does, without being told of the links.
 * False: out of memory.
 */
bool tuner_show_lists(const struct tuner *t, struct buf *out);
bool tuner_show_rules(const struct tuner *t, uint32_t nranks, const struct link_shape *links,
		      struct buf *out);
/* A line of costs, with a newline; of messages alone, whose digits are for people. */
bool tune_show_costs(enum tune_transport by, const struct cost_model *m, struct buf *out);
bool tune_show_sent(enum tune_transport by, const struct cost_model *m, struct buf *out);

struct tune_ask {
	enum gpusim_coll coll;
	enum tune_transport transport;
	uint32_t nranks;
	uint64_t nbytes;      /* of the whole vector */
	const char *algo;     /* the call's; NULL, "" and "auto": open */
	uint64_t chunk_bytes; /* the call's; 0: open */
	unsigned
	    widening;	/* bytes of a partial result for one of an element (mem/redop.h); 0 is 1 */
	bool no_stores; /* nothing that writes to other ranks' memory (plan.h) */
	bool canonical; /* sums by the canonical tree alone (plan.h) */
	uint32_t root;	/* where the collective has one */
	bool parts; /* the call has a table of parts (plan.h), which no algorithm of a file takes */
	const struct tune_files *files; /* that there are; NULL: none */
	struct link_shape links;	/* of the ranks */
};

enum tune_by { TUNE_BY_CALL, TUNE_BY_FILE, TUNE_BY_MODEL, TUNE_BY_NAME };

struct tune_answer {
	const struct plan_algo *algo; /* plan_algo_file: see file */
	const struct tune_file *file; /* NULL: it is built in */
	uint64_t chunk_bytes;	      /* never 0 */
	double us;		      /* what the model says of it; NAN: nothing */
	enum tune_by by;	      /* what decided; by name: GPUSIM_ALGO left no choice */
};

/* The algorithm of a file of a name; NULL: there is none. */
const struct tune_file *tune_file_find(const struct tune_files *files, const char *name);
/* Whether the call may run it: collective, ranks, root, parts; not its range of bytes, which counts where the call has
 * not named it. RC_INVAL with a sentence. */
enum rc tune_file_check(const struct tune_file *f, const struct tune_ask *ask, struct err *err);

/* Same question, same answer. RC_INVAL: no such algorithm; or it is the call's, and stores, is not canonical, or does not
 * fit. */
enum rc tuner_choose(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out,
		     struct err *err);

#endif
