/*
 * tune.h - the choice of an algorithm and its message size when the caller leaves it open. Pure.
 *
 * The first of these that applies decides: the call's own algorithm; the first algorithm of a file that
 * GPUSIM_ALGO lists (struct tune_select) and that fits; the first line of a tuner file that fits (struct
 * tune_rule); the model (below). GPUSIM_ALGO also narrows the choice of the tuner file and the model,
 * unless the transport can do none of the algorithms left.
 */
#ifndef COLL_TUNE_H
#define COLL_TUNE_H

#include "base/buf.h"
#include "coll/simulate.h"

#define TUNE_CHUNK_BYTES       262144	  /* default largest message */
#define TUNE_LARGE_BYTES       (2u << 20) /* longer vectors go through sockets in messages of: */
#define TUNE_LARGE_CHUNK_BYTES 98304
#define TUNE_MIN_CHUNK_BYTES   16384 /* the smallest that the model considers */
#define TUNE_MAX_RULES	       65536

/* The transport between a communicator's ranks. */
enum tune_transport {
	TUNE_NET, /* messages through sockets */
	TUNE_P2P, /* every rank has mapped every other's memory */
	TUNE_NTRANSPORTS,
};

#define TUNE_FILE_NAME 64 /* bytes of an algorithm's name with the NUL */
#define TUNE_MAX_FILES 8  /* that GPUSIM_ALGO names for one collective */

/* An algorithm of a file, which calls, rules and GPUSIM_ALGO may name besides the built-in ones. */
struct tune_file {
	char name[TUNE_FILE_NAME];
	enum gpusim_coll coll;
	uint32_t nranks, root;	       /* its number of ranks, and its root if it has one */
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
	const struct plan_algo *algo;  /* plan_algo_file: the algorithm is `file` */
	char *file;
	int transport;	 /* enum tune_transport; -1: any */
	uint32_t nranks; /* 0: any */
};

/* GPUSIM_ALGO's part about one collective. */
struct tune_select {
	uint64_t allowed; /* bit i: row i of plan_algos */
	bool named;	  /* the allowed ones were listed, so slow ones may be chosen */
	unsigned nfiles;  /* listed algorithms of files: the first that fits is used */
	char file[TUNE_MAX_FILES][TUNE_FILE_NAME];
};

/* Initialise with tuner_init; tuner_fini releases. */
struct tuner {
	struct cost_model model[TUNE_NTRANSPORTS];
	bool measured[TUNE_NTRANSPORTS]; /* costs from a tuner file, which include shaped links */
	struct tune_select select[GPUSIM_NCOLLS];
	struct tune_rule *rule;
	size_t nrules;
	bool takes_files; /* other names may be those of files: see tuner_check_files */
};

/* Built-in costs, every algorithm allowed, no rules. */
void tuner_init(struct tuner *t);
void tuner_fini(struct tuner *t);

/* The costs of messages between ranks with such links: those of a tuner file, else the tuner's costs
 * plus the shape. Memory has no links. */
struct cost_model tuner_model(const struct tuner *t, enum tune_transport by,
			      const struct link_shape *links);

/*
 * tuner_select - apply GPUSIM_ALGO, which has the syntax of NCCL_ALGO.
 *
 * Lists with ';' between: "[COLLECTIVE:][^]ALGO[,ALGO...]". A list names the allowed algorithms, or
 * with ^ the excluded ones; without a collective it applies to all that have one of its algorithms. A
 * later list of a collective replaces an earlier one. "" changes nothing. RC_INVAL quotes the word: no
 * such collective or algorithm, or nothing is left; *t is then unchanged.
 */
enum rc tuner_select(struct tuner *t, const char *text, struct err *err);

/*
 * tuner_rules - apply a tuner file's text, with the columns of NCCL's tuner plugin:
 *
 *	collType,minBytes,maxBytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff
 *
 * Columns after the algorithm may be omitted; -1 means any. protocol is net or p2p; NCCL's ll, ll128
 * and simple are any. A line with an algorithm that only GPUs have (nvls, pat ...) matches nothing.
 * channels, numPipeOps and regBuff are ignored, and a line for a number of nodes other than 1 and -1
 * matches nothing. Lines that begin with # and blank ones are skipped. A line of costs,
 *
 *	cost,net,alpha_us=5008,host_us=16,beta_ns=9,gamma_ns=0.04
 *
 * is for net or p2p; omitted costs are unchanged. RC_BADDATA "NAME:LINE: reason", RC_NOMEM; *t is then
 * unchanged.
 */
enum rc tuner_rules(struct tuner *t, const char *text, const char *name, struct err *err);

/*
 * tuner_check_files - check that every name that is not built in is that of one of `files`, for its
 * collective.
 *
 * With takes_files, tuner_select and tuner_rules accept any name that algorithms of files can have.
 * RC_INVAL quotes the first unknown one.
 */
enum rc tuner_check_files(const struct tuner *t, const struct tune_files *files, struct err *err);
/* Return true if the text can name an algorithm of a file: letters, digits, . _ - ; a letter or digit
 * first. */
bool tune_is_name(const char *text);
/* Return true if a list or a rule names the algorithm of a file. */
bool tuner_names_file(const struct tuner *t, const char *name);

/* Apply the value of GPUSIM_ALGO, then the tuner file at a path. NULL or "": none. Errors as
 * tuner_select, tuner_rules and file_text. */
enum rc tuner_configure(struct tuner *t, const char *algo, const char *path, struct err *err);

/*
 * Append the differences from a plain tuner to *out, as texts for tuner_select, and for tuner_rules
 * (rules for nranks ranks only; links: of those ranks). A plain tuner that applies them answers every
 * question of nranks ranks as *t does, without knowing the links. False: out of memory.
 */
bool tuner_show_lists(const struct tuner *t, struct buf *out);
bool tuner_show_rules(const struct tuner *t, uint32_t nranks, const struct link_shape *links,
		      struct buf *out);
/* Append a line of costs, with a newline; tune_show_sent: rounded, and without gamma. */
bool tune_show_sent(enum tune_transport by, const struct cost_model *m, struct buf *out);

struct tune_ask {
	struct plan_args args; /* of any rank; without a table of parts */
	enum tune_transport transport;
	const char *algo;		/* the call's; NULL, "" and "auto": open */
	uint64_t chunk_bytes;		/* the call's; 0: open */
	bool no_stores;			/* nothing that writes to other ranks' memory (plan.h) */
	bool parts;			/* the call has a table of parts (plan.h) */
	const struct tune_files *files; /* known algorithms of files; NULL: none */
	struct link_shape links;	/* of the ranks */
};

enum tune_by { TUNE_BY_CALL, TUNE_BY_FILE, TUNE_BY_MODEL, TUNE_BY_NAME };

struct tune_answer {
	const struct plan_algo *algo; /* plan_algo_file: see file */
	const struct tune_file *file; /* NULL: it is built in */
	uint64_t chunk_bytes;	      /* never 0 */
	double us;		      /* predicted by the model; NAN: unknown */
	enum tune_by by;	      /* how it was chosen; by name: GPUSIM_ALGO left no choice */
};

/* Find an algorithm of a file by name; NULL: not found. */
const struct tune_file *tune_file_find(const struct tune_files *files, const char *name);
/* Check that the call may run it: collective, ranks, root, parts; not its range of bytes, which applies
 * only if the call does not name it. RC_INVAL with a sentence. */
enum rc tune_file_check(const struct tune_file *f, const struct tune_ask *ask, struct err *err);

/* The same question always has the same answer. RC_INVAL: no such algorithm; or the call's own
 * algorithm stores, is not canonical, or does not fit. */
enum rc tuner_choose(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out,
		     struct err *err);

/* ---- closed forms: an algorithm's time in the model of simulate.h, without its plan */

/* An operation; sizes in bytes, of elements. If the plan has partial results, all messages are cut as
 * if they carried them. */
struct cost_args {
	uint32_t nranks;    /* > 1 */
	double nbytes;	    /* of the whole vector */
	double chunk_bytes; /* largest message, > 0 */
	double widening;    /* bytes of a partial result per byte of an element; 0 is 1 */
};

/* One algorithm; by name, because some builds' tables lack some algorithms. */
struct cost_algo {
	enum gpusim_coll coll;
	const char *name;
	bool shared;	/* needs all ranks to have mapped each other's memory */
	bool pipelined; /* smaller messages may be faster */
	bool slow;	/* for comparison: chosen only by name */
	bool inputs;	/* no partial result is sent, with any number of ranks */
	double (*us)(const struct cost_args *a, const struct cost_model *m);
};

/* NULL-name terminated; in the order of preference where costs are equal. */
extern const struct cost_algo cost_algos[];

/*
 * cost_widening - the largest factor by which the algorithm's messages are longer than their elements.
 *
 *	widening	bytes of a partial result per byte of an element
 *
 * Returns widening if the algorithm sends partial results, else 1.
 */
unsigned cost_widening(enum gpusim_coll coll, const char *algo, uint32_t nranks, unsigned widening);

/* The algorithm's row; NULL: not found. */
const struct cost_algo *cost_find(enum gpusim_coll coll, const char *name);

#endif
